"""Costs pooled over nodes, against the product of what every node has seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.pool import APART, Pool
from carico.demand.regression import Estimate

FIRST = Estimate(1.0, 1.0)
costs = st.builds(Estimate, st.floats(1, 2), st.floats(1e-3, 1.2))


@given(st.lists(costs, max_size=6))
def test_what_is_assumed_counts_once_and_what_was_seen_for_every_node(of_nodes):
    pool = Pool(FIRST)
    for number, cost in enumerate(of_nodes):
        pool.update(f"node-{number}", {"pi": cost})
    seen = [cost for cost in of_nodes if cost.variance < FIRST.variance]
    precision = 1 / FIRST.variance + sum(1 / cost.variance - 1 / FIRST.variance for cost in seen)
    weighted = FIRST.mean + sum(cost.mean / cost.variance - FIRST.mean for cost in seen)
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
