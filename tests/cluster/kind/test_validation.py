"""Measured costs of containers on a real node, and a simulated cluster with these costs compared with the real one."""

from __future__ import annotations

import pytest

from testbed.experiment.plan import Plan
from testbed.real.kind.platform import KindPlatform
from testbed.schedulers.spec import parse_spec
from testbed.validation.agreement import agreements
from testbed.validation.demands import measured_demands
from testbed.validation.validation import Measured, measure, simulate
from workloads.scenario import load_scenario

from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

SCENARIO, SCHEDULER = "pi-two-nodes", "kube-scheduler:cpu=250m"
SIMULATED = 10
FACTOR = 1.5
"""The precision of one measurement and one repetition on a machine that may be busy. `carico-testbed validate`, which
repeats both, aims at 10 % of mean PCT (docs/reference/validation.md)."""


@pytest.fixture
def plan(carico_experiment) -> Plan:
    return Plan(load_scenario(SCENARIO), (parse_spec(SCHEDULER),), 1, carico_experiment.seed)


@pytest.fixture
def measured(carico_cluster, kind_maker, plan) -> Measured:
    platform = KindPlatform(kind_maker)
    return measure(carico_cluster, kind_maker, platform, plan, run="validation", say=lambda text: None, turns=1)


def test_a_simulated_cluster_with_measured_costs_takes_about_as_long(measured, plan, carico_experiment, carico_paper):
    costs, settings = measured.costs, measured.settings
    single, several = costs.bursts
    for what, figure, unit in (
        ("CPU of a container's start", costs.start_cpu_s, "s"),
        ("CPU of a container's end", costs.stop_cpu_s, "s"),
        ("containers that start per second at most", settings["starts_per_s"], ""),
        ("pressure while one container starts", single.start_pressure, ""),
        ("pressure while several start", several.start_pressure, ""),
    ):
        carico_paper.row(what, figure, None, unit)
    assert 0 < costs.start_cpu_s < 2
    assert 0 < costs.stop_cpu_s < 2
    assert several.start_pressure > single.start_pressure

    real = carico_experiment.run(SCENARIO, SCHEDULER)
    for run in real:
        every_pod_completed_once(run)
    rows = agreements(real, simulate(measured, measured_demands(plan.scenario, real), plan, SIMULATED, None))
    for row in rows:
        carico_paper.row(f"{row.figure}, simulated / real", row.ratio, None)
    assert all(1 / FACTOR < row.ratio < FACTOR for row in rows)
