import dataclasses

import pytest

from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND

KNOWN = {"pi": Estimate(1.0, 1e-6), "light": Estimate(0.1, 1e-6), "wide": Estimate(3.0, 1e-6)}
"""Costs in cores that every node knows."""


@pytest.fixture
def scheduler():
    return DemandScheduler(DEMAND)


@pytest.fixture
def changed():
    """Makes a scheduler whose variant differs."""
    return lambda **changes: DemandScheduler(dataclasses.replace(DEMAND, **changes))


@pytest.fixture
def report():
    """Makes the report of a node that runs `pods`, by UID their workload, and carries what they cost."""

    def make(node, pods=(), cores=4.0, gib=8.0, demand=None, held=None, stops=0.0, known=KNOWN):
        pods = dict(pods)
        running = [workload for workload in pods.values() if workload is not None]
        if demand is None:
            demand = 0.2 + sum(known.get(name, Estimate(1.0, 1.0)).mean for name in running)
        workloads = {
            name: WorkloadReport(running.count(name), stops if name in running else 0.0, cost, Estimate(0.1, 1e-6))
            for name, cost in known.items()
        }
        held = 1.0 + 0.1 * len(running) if held is None else held
        return DemandReport(node, cores, gib, Estimate(demand, 0.0), held, 1.0, workloads, pods)

    return make
