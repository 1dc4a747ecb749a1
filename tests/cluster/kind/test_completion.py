"""PCT and JCT of CARICO against kube-scheduler at low, right and high requests, on real nodes (thesis §5.1, §5.2)."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import pod_completion_summary
from testbed.results.compare import compare_repetitions
from testbed.results.schema import Repetition

from .invariants import WARM_UP, every_pod_completed_once

pytestmark = pytest.mark.cluster

SCENARIO = "pi-two-nodes"
REQUESTS = {"low": "10m", "right": "250m", "high": "500m"}
"""Of nodes with 600m: all pods at once, two a node, one a node."""
SCHEDULERS = ["carico", *(f"kube-scheduler:cpu={cpu}" for cpu in REQUESTS.values())]


@pytest.fixture
def runs(carico_experiment) -> dict[str, list[Repetition]]:
    return carico_experiment.compare(SCENARIO, SCHEDULERS, settings=WARM_UP)


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
    """What requests are about happens on these nodes, too: six pods a node take longer than two (§5.2)."""
    low, right = (
        pod_completion_summary(runs[f"kube-scheduler:cpu={REQUESTS[name]}"], SCENARIO)["mean"]
        for name in ("low", "right")
    )
    assert low > right


@pytest.mark.parametrize("against", REQUESTS)
@pytest.mark.parametrize("figure", FIGURES)
def test_carico_is_not_worse(runs, carico_paper, figure, against):
    """CARICO's pods and jobs take no longer than with that request; presets below `full` show it and cannot tell."""
    ours, theirs = (
        [FIGURES[figure](run) for run in runs[scheduler]]
        for scheduler in ("carico", f"kube-scheduler:cpu={REQUESTS[against]}")
    )
    found = compare_repetitions(theirs, ours)
    carico_paper.row(f"{figure}, carico / {against} request", found.ratio, None, note=str(found))
    assert found.verdict != "worse", str(found)
