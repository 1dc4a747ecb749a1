"""The capacity signal of a real node when its peer runs another workload (thesis §4.2.3, Fig 4.6, 4.7)."""

from __future__ import annotations

import statistics

import pytest

from testbed.measurement.utilisation import median_between
from testbed.plugin.claims import not_reproduced
from testbed.results.schema import Repetition

from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

VISIBLE = 0.2
"""As in tests/cluster/test_capacity_scenarios.py: the thesis's figures have curves but no numbers."""
LEAST = 3
"""Least repetitions: a single one may coincide with other load on the machine, before the job or during it."""
BEFORE_S, LATE_S = 8.0, 8.0
"""k is measured in the last `BEFORE_S` seconds before the peer's job, and from `LATE_S` seconds after its start on."""


@pytest.fixture
def signals(request, carico_experiment, carico_paper) -> tuple[float, float]:
    """k of the observed node before the job on its peer and late in this job: medians over the repetitions."""
    repetitions = max(LEAST, carico_experiment.repetitions)
    runs = carico_experiment.run(request.param, "kube-scheduler", repetitions=repetitions)
    before, during = (statistics.median(found) for found in zip(*map(before_and_during, runs), strict=True))
    carico_paper.row("k before the peer's job", before, None)
    carico_paper.row("k during the peer's job", during, None)
    return before, during


def before_and_during(run: Repetition) -> tuple[float, float]:
    every_pod_completed_once(run)
    observed, _ = run.nodes
    job = [pod for pod in run.pods if pod.job == "pi"]
    began_s, ended_s = min(pod.started_s for pod in job), max(pod.finished_s for pod in job)
    return (
        median_between(observed, "capacity_signal", began_s - BEFORE_S, began_s),
        median_between(observed, "capacity_signal", began_s + LATE_S, ended_s),
    )


@pytest.mark.carico_claim(
    "§4.2.3, Fig 4.6", "a node under CPU load offers less once its peers run a heavier CPU workload"
)
@pytest.mark.parametrize("signals", ["conflicting-two-nodes"], indirect=True)
def test_conflicting_capacity(signals, carico_paper):
    """A node under light CPU load offers less once its peer runs a heavier CPU workload."""
    before, during = signals
    carico_paper.row("k during / before", during / before, None)
    assert during < (1 - VISIBLE) * before


@pytest.mark.carico_claim("§4.2.3, Fig 4.7", "a node under memory load offers more once its peers run a CPU workload")
@not_reproduced(
    "thesis: k of a node under memory load rises when its peer computes; here it was 0.174 before and during the job: "
    "the node's memory, 0.72 in use, limits k, and the peer's pods, which use memory, too, do not lower its share"
)
@pytest.mark.parametrize("signals", ["complementary-two-nodes"], indirect=True)
def test_complementary_capacity(signals, carico_paper):
    """A node under memory load offers more once its peer runs a CPU workload, because its CPU is free."""
    before, during = signals
    carico_paper.row("k during / before", during / before, None)
    assert during > (1 + VISIBLE) * before
