"""Measures what the core of the variant `demand` costs a scheduler, beside the thesis's core, with many nodes.

Nodes report thirty pods each, of many workloads, while pods of all workloads wait. Both cores take turns in every
round; a figure is the median of the rounds.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from benchmarks.common import parse, parser, run
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.scheduler import Scheduler
from carico.scheduling.wake_up import WakeUp

NODES, WORKLOADS, PODS = 10_000, 1_000, 30
ROUNDS = 5
_DECISIONS = 50


def main() -> int:
    """Measure, print and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", type=int, default=NODES, help="default: %(default)s")
    arguments.add_argument("--workloads", type=int, default=WORKLOADS, help="default: %(default)s")
    options = parse(arguments)
    if not (1 <= options.nodes <= 100_000 and 1 <= options.workloads <= 100_000):
        arguments.error("--nodes and --workloads must be in [1, 100000]")
    return run("demand", lambda: measure(options.nodes, options.workloads), options.json)


def measure(nodes: int, workloads: int) -> dict[str, float]:
    """Return, for both cores, the microseconds of a report and the milliseconds of a decision among all nodes."""
    rng = random.Random(1)
    names = [f"node-{number}" for number in range(nodes)]
    reports = [_report(name, workloads, rng) for name in names]
    changed = [_later(report, rng) for report in reports]
    demand, thesis = DemandScheduler(DEMAND, WakeUp()), Scheduler(CaricoPlugin(5.0), wake_up=WakeUp())
    for number in range(workloads):
        demand.pod_waits(f"waits-{number}", Kind(f"workload-{number}"))
    for report in reports:
        demand.report(report, 0.0)
        thesis.report(report.node, 100.0, 0.0)
    figures: dict[str, list[float]] = {}

    def timed(name: str, unit: float, times: int, what: Callable[[int], object]) -> None:
        began = perf_counter()
        for number in range(times):
            what(number)
        figures.setdefault(name, []).append((perf_counter() - began) / times * unit)

    for number in range(ROUNDS):
        told = (changed, reports)[number % 2]
        now = float(number)
        timed("report_us_demand", 1e6, nodes, lambda i: demand.report(told[i], now))  # noqa: B023  called at once
        timed("report_us_thesis", 1e6, nodes, lambda i: thesis.report(names[i], 100.0, now))  # noqa: B023
        timed(
            "decision_ms_demand",
            1e3,
            _DECISIONS,
            lambda i: demand.filter(f"{now}-{i}", Kind(f"workload-{rng.randrange(workloads)}"), names, now),  # noqa: B023
        )
        timed("decision_ms_thesis", 1e3, _DECISIONS, lambda i: thesis.filter(f"{now}-{i}", names, now).best)  # noqa: B023
    return {name: statistics.median(values) for name, values in figures.items()}


def _report(node: str, workloads: int, rng: random.Random) -> DemandReport:
    pods = {f"{node}-{number}": f"workload-{rng.randrange(workloads)}" for number in range(PODS)}
    known = {
        name: WorkloadReport(list(pods.values()).count(name), 0.01, _estimate(rng), _estimate(rng))
        for name in set(pods.values())
    }
    return DemandReport(node, 16.0, 64.0, Estimate(15.0, 0.1), 20.0, 2.0, known, pods)


def _later(report: DemandReport, rng: random.Random) -> DemandReport:
    """Return the report a second later: the estimates of a tenth of its workloads have changed."""
    known = {
        name: WorkloadReport(each.pods, each.stops_per_s, _estimate(rng), _estimate(rng))
        if rng.random() < 0.1
        else each
        for name, each in report.workloads.items()
    }
    return replace(report, workloads=known)


def _estimate(rng: random.Random) -> Estimate:
    return Estimate(rng.uniform(0.3, 0.7), rng.uniform(0.001, 0.01))


if __name__ == "__main__":
    sys.exit(main())
