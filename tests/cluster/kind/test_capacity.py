"""Pod-Capacity and k under real load: both fall on the node that has it, and recover (thesis §3.4, §3.5)."""

from __future__ import annotations

import statistics

import pytest

from testbed.measurement.utilisation import median_between
from testbed.results.schema import Repetition

from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

FALLS = 0.5
"""A node without any CPU to give has far less than half of its capacity left; noise of an idle one is a tenth."""
SETTLES_S = 6.0
"""What the smoothing of telemetry, the hold-off and the batch's weight take together after a pod has begun or ended."""


LOADED, IDLE = 0, 1
"""The nodes, by their place."""


@pytest.fixture
def runs(carico_experiment) -> list[Repetition]:
    return carico_experiment.run("load-and-recovery", "carico")


def spans(run: Repetition) -> tuple[tuple[float, float], ...]:
    """Before, during and after the load, without what lies between."""
    load = [pod for pod in run.pods if pod.job == "load"]
    next_s = min(pod.started_s for pod in run.pods if pod.job == "afterwards")
    began_s, ended_s = min(pod.started_s for pod in load), max(pod.finished_s for pod in load)
    return (0.0, began_s), (began_s + SETTLES_S, ended_s), (ended_s + SETTLES_S, next_s)


def course(runs: list[Repetition], node: int, metric: str) -> list[float]:
    """A node's metric in these spans, each the median over the repetitions."""
    courses = [[median_between(run.nodes[node], metric, *span) for span in spans(run)] for run in runs]
    return [statistics.median(values) for values in zip(*courses, strict=True)]


def test_every_pod_completes_once(runs):
    for run in runs:
        every_pod_completed_once(run)


@pytest.mark.parametrize("metric", ["pod_capacity", "capacity_signal"])
def test_capacity_falls_and_recovers_on_the_node_that_has_the_load(runs, carico_paper, metric):
    before, during, after = course(runs, LOADED, metric)
    for when, value in (("before", before), ("during", during), ("after", after)):
        carico_paper.row(f"{metric} {when} the load", value, None)
    assert during < FALLS * before
    assert during < FALLS * after


def test_the_node_takes_no_further_pod_under_load_and_takes_one_again_afterwards(runs):
    before, during, after = course(runs, LOADED, "pod_capacity")
    assert during < 1 <= min(before, after)


def test_the_other_node_keeps_its_room(runs, carico_paper):
    """k has another unit there once its peer has learned, Pod-Capacity counts pods (docs/concepts/unit-of-k.md)."""
    before, during, _ = course(runs, IDLE, "pod_capacity")
    carico_paper.row("pod_capacity of the idle node, during / before", during / before, None)
    assert during > FALLS * before
    assert during >= 1
