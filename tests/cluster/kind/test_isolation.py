"""The effect of a job on the clients of a server beside it, on real nodes (thesis §5.5, Table 5.4)."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from testbed.comparison.difference import in_turns
from testbed.measurement.request_latency import PHASES, request_latencies
from testbed.measurement.statistics import summary
from testbed.results.schema import Repetition

from .comparisons import assert_not_worse, lost_before, skip_unless_measured, verdict_of
from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

SCENARIOS = ("isolation-one-node", "isolation-two-nodes")
LOW = "kube-scheduler:cpu=10m"
SCHEDULERS = ("carico", LOW)
SHOWN = ("p50", "p99")
INTERVAL_S = 0.05
"""Time between two requests of the scenarios; a longer gap means that a request was not answered."""
_WHY = "the server's own request keeps most pods of 10m off its node, while CARICO uses both nodes"
LOST = {
    ("isolation-two-nodes", "p50"): f"4.40 times [2.84, 7.42], n = 10; {_WHY}",
    ("isolation-two-nodes", "p99"): f"1.61 times [1.23, 2.19], n = 10; {_WHY}",
}
"""The claims that did not hold when they were last measured (docs/reference/performance.md)."""


@pytest.fixture(params=SCENARIOS)
def scenario(request) -> str:
    return request.param


@pytest.fixture
def runs(carico_experiment, scenario) -> dict[str, list[Repetition]]:
    return carico_experiment.compare(scenario, SCHEDULERS)


def latency_s(run: Repetition, phase: str) -> dict[str, float]:
    return summary(request_latencies([run], "web", phase))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_requests_are_answered_before_and_during_the_job(runs, scenario, carico_paper, scheduler):
    for run in runs[scheduler]:
        every_pod_completed_once(run)
        (answers,) = run.requests
        assert max(after - before for before, after in pairwise(answers.sent_s)) < 1.5 * INTERVAL_S
    for phase in PHASES:
        found = summary(request_latencies(runs[scheduler], "web", phase))
        for column in SHOWN:
            carico_paper.row(f"{scenario}: latency {column}, {phase} the job", 1000 * found[column], None, "ms")


@pytest.mark.carico_claim("§5.5, Table 5.4", "the tail of a server's latency is far shorter than with low requests")
@pytest.mark.parametrize("scenario", ["isolation-one-node"], indirect=True)
def test_carico_shortens_the_tail(runs, scenario, carico_paper):
    """On one node, where both schedulers have no choice of nodes."""
    ours, theirs = ([latency_s(run, "during")["p99"] for run in runs[scheduler]] for scheduler in SCHEDULERS)
    found = in_turns(theirs, ours)
    carico_paper.row("p99 during the job, carico / low request", found.effect, None, note=str(found))
    skip_unless_measured(min(found.n))
    assert verdict_of(found) == "improved", str(found)


def test_low_requests_slow_a_server_down(runs, scenario, carico_paper):
    """Pods that all start at once take the server's CPU time: the node's quota throttles both (§5.5)."""
    before, during = ([latency_s(run, phase)["p99"] for run in runs[LOW]] for phase in PHASES)
    found = in_turns(before, during)
    carico_paper.row(f"{scenario}: p99 during / before", found.effect, None, note=str(found))
    skip_unless_measured(min(found.n))
    assert verdict_of(found) == "regressed", str(found)


@pytest.mark.parametrize(
    ("scenario", "column"),
    [pytest.param(*case, marks=lost_before(LOST[case]) if case in LOST else ()) for case in product(SCENARIOS, SHOWN)],
    indirect=["scenario"],
)
def test_carico_slows_a_server_down_no_more(runs, scenario, carico_paper, column):
    ours, theirs = ([latency_s(run, "during")[column] for run in runs[scheduler]] for scheduler in SCHEDULERS)
    found = in_turns(theirs, ours)
    carico_paper.row(f"{scenario}: {column} during, carico / low request", found.effect, None, note=str(found))
    assert_not_worse(found)
