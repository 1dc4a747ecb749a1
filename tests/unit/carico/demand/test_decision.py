"""What a decision says of every node."""

import pytest

from carico.demand.regression import Estimate
from carico.demand.waiting import Kind
from carico.scheduling.scheduler import STALE_AFTER_S

KNOWN = {"pi": Estimate(1.0, 1e-6), "heavy": Estimate(0.1, 1e-6)}
NODES = ["stranger", "silent", "old", "busy", "idle", "full"]


@pytest.fixture
def decision(scheduler, report):
    """A decision about a pod, on nodes of every sort; nothing changes by asking."""
    scheduler.report(report("silent"), 0.0)
    scheduler.report_capacity("old", 0.25, 8.0)
    scheduler.report(report("busy", {"one": "pi"}, demand=4.8), 8.0)
    scheduler.report(report("idle"), 8.0)
    scheduler.report(report("full", {"two": "pi"}, held=7.585), 8.0)
    for number in range(100):
        scheduler.pod_waits(f"crowd-{number}", Kind("pi"))
    return scheduler.decision(Kind("pi"), NODES, 10.0)


def test_the_reason_of_every_refusal_is_told_with_its_numbers(decision):
    assert decision.refused == {
        "stranger": "no report yet",
        "silent": "last report 10 s ago",
        "old": "reports no demand (its agent is older, or of another variant), and takes 0.25 pods",
        "busy": "CPU full: its load is 0.55 cores above its level",
        "full": "needs 0.11 GiB, has 0.01",
    }
    assert decision.node == "idle"


def test_candidates_are_counted_by_verdict(decision):
    assert decision.count_verdicts() == {
        "no report yet": 1,
        "last report too old": 1,
        "reports no demand": 1,
        "CPU full": 1,
        "memory full": 1,
        "has room": 1,
    }


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 100])
def test_the_best_candidates_are_kept_in_their_order(decision, limit):
    best = decision.among_best(limit)
    assert len(best.nodes) == min(limit, len(NODES))
    assert list(best.nodes) == [node for node in NODES if node in best.nodes]
    assert best.node == "idle"
    if limit >= 3:
        assert {"busy", "full"} <= set(best.nodes), "more is known of these than of the others"


def test_one_verdict_is_that_of_all(decision):
    assert tuple(map(str, map(decision.verdict, range(len(NODES))))) == tuple(map(str, decision.verdicts))
    assert [each.verdict(STALE_AFTER_S) == "has room" for each in decision.verdicts] == decision.fits.tolist()


def test_thousands_of_nodes_share_few_texts(scheduler, report):
    nodes = [f"node-{number}" for number in range(2000)]
    for node in nodes:
        scheduler.report(report(node, {f"{node}-pod": "pi"}, demand=6.0), 0.0)
    for number in range(20_000):
        scheduler.pod_waits(f"pod-{number}", Kind("pi"))
    reasons = scheduler.decision(Kind("pi"), nodes, 0.0).refused
    assert len(reasons) == 2000
    assert len({id(text) for text in reasons.values()}) == 1
