"""PCT and JCT of CARICO against kube-scheduler at low, right and high requests, on real nodes (thesis §5.1, §5.2)."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import pod_completion_summary
from testbed.results.compare import LEAST_FOR_INTERVAL, Comparison, compare_repetitions
from testbed.results.schema import Repetition

from .invariants import every_pod_completed_once
from .losses import Loss, assert_not_worse

pytestmark = pytest.mark.cluster

SCENARIO = "pi-two-nodes"
REQUESTS = {"low": "10m", "right": "250m", "high": "500m"}
"""On a node with 600m, low requests admit all pods at once, right ones two, high ones one."""
COMPARABLE = 1.10
"""The limit of what the thesis calls comparable, as in tests/cluster/test_job_completion.py."""
LOSSES = {
    ("JCT", "low"): Loss(1.11, 1.07, 1.15, 6, "the thesis calls up to a tenth comparable"),
    ("JCT", "right"): Loss(1.08, 1.02, 1.14, 6, "the thesis calls up to a tenth comparable"),
    ("mean PCT", "high"): Loss(1.27, 1.15, 1.38, 6, "a pod that has a node to itself is done sooner, the job later"),
}
SCHEDULERS = ["carico", *(f"kube-scheduler:cpu={cpu}" for cpu in REQUESTS.values())]


@pytest.fixture
def runs(carico_experiment) -> dict[str, list[Repetition]]:
    return carico_experiment.compare(SCENARIO, SCHEDULERS)


def jct(run: Repetition) -> float:
    completion = run.job_completion_time_s[SCENARIO]
    assert completion is not None
    return completion


def mean_pct(run: Repetition) -> float:
    return pod_completion_summary([run], SCENARIO)["mean"]


FIGURES = {"JCT": jct, "mean PCT": mean_pct}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_pod_completes_once(runs, scheduler):
    for run in runs[scheduler]:
        every_pod_completed_once(run)


def test_low_requests_stretch_pods(runs):
    """A low request costs time on these nodes, too: six pods on a node take longer than two (§5.2)."""
    low, right = (
        pod_completion_summary(runs[f"kube-scheduler:cpu={REQUESTS[name]}"], SCENARIO)["mean"]
        for name in ("low", "right")
    )
    assert low > right


@pytest.mark.parametrize("against", REQUESTS)
@pytest.mark.parametrize("figure", FIGURES)
def test_carico_is_not_worse(runs, carico_paper, request, figure, against):
    """CARICO's pods and jobs take no longer than with this request; presets below `full` show it but cannot fail."""
    found = compared(runs, figure, against)
    carico_paper.row(f"{figure}, carico / {against} request", found.ratio, None, note=str(found))
    assert_not_worse(found, LOSSES.get((figure, against)), request)


@pytest.mark.parametrize("against", REQUESTS)
def test_jobs_take_comparable_time(runs, against):
    """A JCT within 10 % of the best request's, comparable in the thesis's words (§5.1), cannot be ruled out."""
    found = compared(runs, "JCT", against)
    assert found.repetitions < LEAST_FOR_INTERVAL or found.low <= COMPARABLE, str(found)


def compared(runs, figure: str, against: str) -> Comparison:
    ours, theirs = (
        [FIGURES[figure](run) for run in runs[scheduler]]
        for scheduler in ("carico", f"kube-scheduler:cpu={REQUESTS[against]}")
    )
    return compare_repetitions(theirs, ours)
