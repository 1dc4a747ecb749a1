"""Measured costs of containers on a real node, and a simulated cluster with these costs compared with the real one."""

from __future__ import annotations

from statistics import fmean

import pytest

from testbed.comparison.intervals import LEAST_FOR_INTERVAL
from testbed.experiment.plan import Plan
from testbed.real.kind.platform import KindPlatform
from testbed.schedulers.spec import parse_spec
from testbed.validation.agreement import AIM, Agreement, agreements
from testbed.validation.demands import measured_demands
from testbed.validation.measured_node import SEVERAL, TURNS
from testbed.validation.validation import Measured, measure, simulate
from workloads.scenario import load_scenario

from .comparisons import skip_unless_measured
from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

SCENARIO, KUBE, CARICO = "pi-two-nodes", "kube-scheduler:cpu=250m", "carico"
SIMULATED = 20
FACTOR = 1.5
"""The precision of one measurement and one repetition on a machine that may be busy."""


@pytest.fixture
def plan(carico_experiment) -> Plan:
    schedulers = (parse_spec(KUBE), parse_spec(CARICO))
    return Plan(load_scenario(SCENARIO), schedulers, carico_experiment.repetitions, carico_experiment.seed)


@pytest.fixture
def measured(carico_cluster, kind_maker, plan) -> Measured:
    platform = KindPlatform(kind_maker)
    # One burst of each size shows no spread, which decides when a second pod comes to a node.
    turns = 1 if plan.repetitions < LEAST_FOR_INTERVAL else TURNS
    return measure(carico_cluster, kind_maker, platform, plan, run="validation", say=lambda text: None, turns=turns)


def compared(measured: Measured, plan: Plan, carico_experiment, carico_paper) -> list[Agreement]:
    """Return how well both schedulers' figures agree, and show it."""
    real = [run for runs in carico_experiment.compare(SCENARIO, [KUBE, CARICO]).values() for run in runs]
    for run in real:
        every_pod_completed_once(run)
    rows = agreements(real, simulate(measured, measured_demands(plan.scenario, real), plan, SIMULATED, None))
    for row in rows:
        low, high = row.ratio_interval
        note = f"[{low:.2f}, {high:.2f}]"
        carico_paper.row(f"{row.figure}, simulated / real, {row.scheduler}", row.ratio, None, note=note)
    return rows


def test_a_simulated_cluster_with_measured_costs_takes_about_as_long(measured, plan, carico_experiment, carico_paper):
    costs, settings = measured.costs, measured.settings
    single, several = (fmean(one.start_pressure for one in costs.bursts if one.pods == pods) for pods in (1, SEVERAL))
    for what, figure, unit in (
        ("CPU of a container's start, until its program begins", costs.start_cpu_s, "s"),
        ("CPU of a container's start after that", costs.started_cpu_s, "s"),
        ("CPU of a container's end", costs.stop_cpu_s, "s"),
        ("containers that start per second at most", settings["starts_per_s"], ""),
        ("pressure while one container starts", single, ""),
        ("pressure while several start", several, ""),
    ):
        carico_paper.row(what, figure, None, unit)
    assert 0 < costs.start_cpu_s < 2
    assert 0 < costs.stop_cpu_s < 2
    assert several > single
    rows = compared(measured, plan, carico_experiment, carico_paper)
    assert all(1 / FACTOR < row.ratio < FACTOR for row in rows)


WIDE = 1.5
"""An interval whose ends differ by more than this factor says nothing."""


def test_pods_take_as_long_simulated_within_a_tenth(carico_experiment, request, plan, carico_paper):
    """The aim of `carico-testbed validate`, for CARICO's pods, too: judged by the intervals of the ratios."""
    skip_unless_measured(carico_experiment.repetitions)
    measured = request.getfixturevalue("measured")
    for row in compared(measured, plan, carico_experiment, carico_paper):
        if row.figure == "mean PCT":
            low, high = row.ratio_interval
            if high > WIDE * low:
                pytest.skip(f"the machine is too noisy: under {row.scheduler} the ratio is in [{low:.2f}, {high:.2f}]")
            assert low <= 1 + AIM, f"{row.scheduler}: simulated pods take longer, [{low:.2f}, {high:.2f}]"
            assert high >= 1 - AIM, f"{row.scheduler}: simulated pods take less time, [{low:.2f}, {high:.2f}]"
