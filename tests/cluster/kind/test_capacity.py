"""Pod-Capacity and k under real load: both fall on the loaded node, and recover (thesis §3.4, §3.5)."""

from __future__ import annotations

import statistics

import pytest

from testbed.measurement.utilisation import median_between
from testbed.results.schema import Repetition

from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

FALLS = 0.5
"""A node without free CPU has much less than half of its capacity left; the noise of an idle node is a tenth."""
SETTLES_S = 6.0
"""The time that smoothing, hold-off and the weight of a batch take together after a pod has started or ended."""


LOADED, IDLE = 0, 1
"""Indices of the nodes."""


@pytest.fixture
def runs(carico_experiment) -> list[Repetition]:
    return carico_experiment.run("load-and-recovery", "carico")


def spans(run: Repetition) -> tuple[tuple[float, float], ...]:
    """Return the times before, during and after the load, without the transitions between them."""
    load = [pod for pod in run.pods if pod.job == "load"]
    next_s = min(pod.started_s for pod in run.pods if pod.job == "afterwards")
    began_s, ended_s = min(pod.started_s for pod in load), max(pod.finished_s for pod in load)
    return (0.0, began_s), (began_s + SETTLES_S, ended_s), (ended_s + SETTLES_S, next_s)


def course(runs: list[Repetition], node: int, metric: str) -> list[float]:
    """Return a node's metric in these spans, each as the median over the repetitions."""
    courses = [[median_between(run.nodes[node], metric, *span) for span in spans(run)] for run in runs]
    return [statistics.median(values) for values in zip(*courses, strict=True)]


def test_every_pod_completes_once(runs):
    for run in runs:
        every_pod_completed_once(run)


@pytest.mark.parametrize("metric", ["pod_capacity", "capacity_signal"])
def test_capacity_falls_and_recovers_on_the_loaded_node(runs, carico_paper, metric):
    before, during, after = course(runs, LOADED, metric)
    for when, value in (("before", before), ("during", during), ("after", after)):
        carico_paper.row(f"{metric} {when} the load", value, None)
    assert during < FALLS * before
    assert during < FALLS * after


def test_the_loaded_node_takes_no_further_pod_until_the_load_ends(runs):
    before, during, after = course(runs, LOADED, "pod_capacity")
    assert during < 1 <= min(before, after)


def test_the_idle_node_keeps_its_capacity(runs, carico_paper):
    """Only Pod-Capacity is compared, because k changes its unit when the peer learns (docs/concepts/unit-of-k.md)."""
    before, during, _ = course(runs, IDLE, "pod_capacity")
    carico_paper.row("pod_capacity of the idle node, during / before", during / before, None)
    assert during > FALLS * before
    assert during >= 1
