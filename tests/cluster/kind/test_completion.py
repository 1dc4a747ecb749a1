"""PCT and JCT of CARICO against kube-scheduler at low, right and high requests, on real nodes (thesis §5.1, §5.2)."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import pod_completion_summary
from testbed.results.compare import LEAST_FOR_INTERVAL, Comparison, compare_repetitions
from testbed.results.schema import Repetition

from .invariants import WARM_UP, every_pod_completed_once

pytestmark = pytest.mark.cluster

SCENARIO = "pi-two-nodes"
REQUESTS = {"low": "10m", "right": "250m", "high": "500m"}
"""Of nodes with 600m: all pods at once, two a node, one a node."""
COMPARABLE = 1.10
"""As in tests/cluster/test_job_completion.py: what the thesis calls comparable."""
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
def test_carico_completes_a_job_in_comparable_time(runs, carico_paper, against):
    """CARICO's JCT is within 10 % of that with any request (§5.1); presets below `full` show it and cannot tell."""
    found = compared(runs, carico_paper, "JCT", against)
    assert found.repetitions < LEAST_FOR_INTERVAL or found.low <= COMPARABLE, str(found)


@pytest.mark.parametrize("against", ["low", "right"])
def test_carico_completes_pods_sooner(runs, carico_paper, against):
    """Where requests let a node take several pods, CARICO's take no longer (§5.2); as above of the presets."""
    found = compared(runs, carico_paper, "mean PCT", against)
    assert found.verdict != "worse", str(found)


def test_a_pod_that_has_a_node_to_itself_is_done_sooner(runs, carico_paper):
    """High requests buy that with the job's time: it is shown, and nothing is claimed of it."""
    compared(runs, carico_paper, "mean PCT", "high")


def compared(runs, carico_paper, figure: str, against: str) -> Comparison:
    ours, theirs = (
        [FIGURES[figure](run) for run in runs[scheduler]]
        for scheduler in ("carico", f"kube-scheduler:cpu={REQUESTS[against]}")
    )
    found = compare_repetitions(theirs, ours)
    carico_paper.row(f"{figure}, carico / {against} request", found.ratio, None, note=str(found))
    return found
