"""Costs pooled over nodes, against the product of what every node has seen."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.pool import APART, Pool
from carico.demand.regression import Estimate

FIRST = Estimate(1.0, 1.0)
costs = st.builds(Estimate, st.floats(1, 2), st.floats(1e-3, 1.2))
unsettled = st.builds(Estimate, st.floats(0.5, 20), st.floats(1, 100))


@given(st.lists(unsettled, min_size=1, max_size=40), st.lists(unsettled, max_size=9))
def test_unsettled_costs_are_believed_if_a_quarter_of_the_nodes_exceed_them(honest, hostile):
    hostile = hostile[: (len(honest) - 1) // 3]
    pool = Pool(FIRST)
    for number, cost in enumerate([*hostile, *honest]):
        pool.update(f"node-{number}", {"pi": cost})
    assert FIRST.mean <= pool.cost("pi").mean <= max(FIRST.mean, *(cost.mean for cost in honest))
    if min(cost.mean for cost in honest) > FIRST.mean:
        assert pool.cost("pi").mean >= min(cost.mean for cost in honest)


def test_large_pods_that_grow_are_expected_on_other_nodes_until_a_node_knows_them():
    pool = Pool(FIRST)
    pool.update("node-0", {"job": Estimate(6.0, 36.0)})
    assert pool.cost("job") == Estimate(6.0, 36.0)
    pool.update("node-1", {"job": Estimate(2.0, 1e-4)})
    assert pool.cost("job").mean == pytest.approx(2.0, rel=0.01)
    pool.forget("node-1")
    pool.forget("node-0")
    assert pool.cost("job") == FIRST


@given(st.lists(costs.filter(lambda cost: cost.variance < FIRST.variance), max_size=6))
def test_what_is_assumed_counts_once_and_what_was_seen_for_every_node(of_nodes):
    pool = Pool(FIRST)
    for number, cost in enumerate(of_nodes):
        pool.update(f"node-{number}", {"pi": cost})
    precision = 1 / FIRST.variance + sum(1 / cost.variance - 1 / FIRST.variance for cost in of_nodes)
    weighted = FIRST.mean + sum(cost.mean / cost.variance - FIRST.mean for cost in of_nodes)
    expected = (max(weighted / precision, 0.0), 1 / precision)
    assert pool.cost("pi") == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_what_is_hardly_news_costs_no_sum():
    pool = Pool(FIRST)
    pool.update("node-0", {"pi": Estimate(0.5, 0.01)})
    before = pool.cost("pi")
    pool.update("node-0", {"pi": Estimate(0.509, 0.0105)})
    assert pool.cost("pi") is before
    pool.update("node-0", {"pi": Estimate(0.53, 0.0105)})
    assert pool.cost("pi").mean == pytest.approx(before.mean + 0.03, abs=0.002)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.dictionaries(st.sampled_from(["pi", "web"]), costs)), max_size=12))
def test_only_the_latest_of_every_node_counts(updates):
    pool, fresh = Pool(FIRST), Pool(FIRST)
    latest = {}
    for node, known in updates:
        pool.update(node, known)
        latest[node] = known
    for node, known in latest.items():
        fresh.update(node, known)
    for workload in ("pi", "web"):
        found, wanted = pool.cost(workload), fresh.cost(workload)
        assert abs(found.mean - wanted.mean) <= 0.5 * wanted.variance**0.5, "what is hardly news is left out"
        assert found.variance == pytest.approx(wanted.variance, rel=0.5)
    for node in latest:
        pool.forget(node)
    assert pool.cost("pi") == pytest.approx(FIRST)


@given(st.floats(0, 1000), st.floats(1e-12, 1), st.integers(1, 9), st.integers(1, 4))
def test_hostile_nodes_move_a_cost_by_no_more_than_their_share(mean, variance, honest, hostile):
    hostile = min(hostile, max(honest - 1, 1))  # nothing helps against most nodes
    pool = Pool(FIRST, finest=0.05)
    for number in range(honest):
        pool.update(f"honest-{number}", {"pi": Estimate(1.0, 1e-6)})
    for number in range(hostile):
        pool.update(f"hostile-{number}", {"pi": Estimate(mean, variance)})
    assert abs(pool.cost("pi").mean - 1.0) <= hostile / (honest + hostile) * abs(mean - 1.0) * 1.01 + 1e-9


@given(st.floats(0, 10_000), st.floats(1e-6, 0.9), st.integers(3, 30), st.booleans())
def test_a_minority_is_not_believed_to_see_what_nobody_else_sees(mean, variance, honest, hostile_first):
    pool = Pool(FIRST, finest=0.05)
    groups = [("honest", honest, Estimate(1.0, 1e-6)), ("hostile", honest // 2, Estimate(mean, variance))]
    for _ in range(2):
        for name, nodes, cost in reversed(groups) if hostile_first else groups:
            for number in range(nodes):
                pool.update(f"{name}-{number}", {"pi": cost})
    assert 0.5 < pool.cost("pi").mean <= (2 * 1 + 1 * APART) / 3


@pytest.mark.parametrize("hostile", range(1, 20))
def test_nodes_that_report_before_all_others_are_not_believed_more(hostile):
    """Until the others report they are the majority, and each further report of a node is no news."""
    honest = max(hostile + 1, 3)
    cost = attacked([Estimate(1.0, 1e-6)] * honest, [[Estimate(10_000.0, 1e-6)] * hostile], "lies first").mean
    assert 1.0 <= cost <= 1.01 + 3 * hostile / (honest + hostile)


lies = st.builds(Estimate, st.floats(0, 10_000), st.floats(0, 1.5))
attacks = st.integers(1, 9).flatmap(
    lambda hostile: st.tuples(
        st.integers(max(hostile + 1, 3), 20),
        st.lists(st.lists(lies | st.none(), min_size=hostile, max_size=hostile), min_size=1, max_size=3),
    )
)


def attacked(honest, lies, order):
    """Costs in which hostile nodes had a part, after everything was said, and 5 s later."""
    pool = Pool(FIRST, finest=0.05)
    rounds = [{f"hostile-{number}": lie for number, lie in enumerate(told)} for told in lies]
    for told in rounds:
        of_honest = {f"honest-{number}": cost for number, cost in enumerate(honest)}
        said = list((told | of_honest if order == "lies first" else of_honest | told).items())
        for node, cost in order.sample(said, len(said)) if isinstance(order, random.Random) else said:
            pool.update(node, {} if cost is None else {"pi": cost})
    pool.remember("pi", 5.0, 5.0)
    return pool.cost("pi")


@given(attacks, st.floats(0, 10), st.sampled_from(["lies first", "lies last"]) | st.randoms(use_true_random=False))
def test_hostile_nodes_move_what_most_nodes_know_by_no_more_than_is_documented(attack, true, order):
    """Of n nodes k raise a cost by at most 3 k/n of it, and lower it by at most 3/4 k/n (docs/concepts/demand.md)."""
    honest, lies = attack
    cost = attacked([Estimate(true, 1e-6)] * honest, lies, order).mean
    share = len(lies[0]) / (honest + len(lies[0]))
    assumed = 0.01 * (1 + true)  # what is assumed about every workload has its small part, too
    assert true * (1 - 0.75 * share) - assumed <= cost <= true + share * (4 * max(true, 0.05) - true) + assumed


@given(
    attacks,
    st.lists(st.builds(Estimate, st.floats(0.1, 10), st.floats(1e-4, 0.25)), min_size=20, max_size=20),
    st.sampled_from(["lies first", "lies last"]) | st.randoms(use_true_random=False),
)
def test_hostile_nodes_cannot_raise_what_most_nodes_know_less_well_much_further(attack, honest, order):
    honest = honest[: attack[0]]
    cost = attacked(honest, attack[1], order).mean
    assert cost <= max(FIRST.mean, 7 * max(each.mean for each in honest))


@given(lies, st.floats(0, 10))
def test_with_one_honest_node_a_lie_counts_at_most_half(lie, true):
    pool = Pool(FIRST, finest=0.05)
    pool.update("honest", {"pi": Estimate(true, 1e-6)})
    pool.update("hostile", {"pi": lie})
    assert abs(pool.cost("pi").mean - true) <= 1.01 * abs(lie.mean - true) / 2 + 0.01 * (1 + true)


def test_what_one_node_knows_well_is_known_well():
    pool = Pool(FIRST, finest=0.05)
    pool.update("node-0", {"light": Estimate(0.1, 1e-6)})
    mean, variance = pool.cost("light")
    assert mean == pytest.approx(0.1, abs=0.01)
    assert variance < 1e-4, "the bound is on what a node does to others, not on what is known"


def test_a_node_that_knows_nothing_changes_nothing():
    pool = Pool(FIRST)
    pool.update("node-0", {"pi": Estimate(0.5, 0.01)})
    before = pool.cost("pi")
    pool.update("node-1", {"pi": FIRST})
    pool.update("node-2", {})
    assert pool.cost("pi") == before


@given(st.lists(st.tuples(st.sampled_from("ABCDEF"), st.floats(0, 100), st.floats(1e-4, 0.2)), max_size=40))
def test_sums_that_are_kept_up_to_date_are_those_of_the_evidence_at_hand(updates):
    """The oracle adds up, from nothing, what the nodes have reported last, clipped to the median in force."""
    pool = Pool(FIRST, finest=0.05)
    for node, mean, variance in updates:
        pool.update(node, {"pi": Estimate(mean, variance)})
    median, _ = pool._median.get("pi", (0.0, 0))
    precision, weighted = 1 / FIRST.variance, FIRST.mean / FIRST.variance
    for known in pool._of_node.values():
        cost = known["pi"].reported
        clipped = cost.mean
        if "pi" in pool._median:
            clipped = min(max(cost.mean, median / APART), APART * max(median, 0.05))
        weight = min(1 / cost.variance - 1 / FIRST.variance, 1 / 0.05**2 - 1 / FIRST.variance)
        share = cost.variance / FIRST.variance
        precision += weight
        weighted += weight * (clipped - FIRST.mean * share) / (1 - share)
    if len(pool._of_node) < 3 or pool._median:
        assert pool.cost("pi").mean == pytest.approx(max(weighted / precision, 0.0), rel=1e-6, abs=1e-9)
