"""Nodes whose loads depend on pooled costs: told when a cost moves, but never so often that it takes all the time."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from carico.demand.dependence import MOST_PER_S, Dependence

NODES = [f"node-{number}" for number in range(5000)]


def depending(nodes, **coming):
    dependence = Dependence({name: Counter(dict.fromkeys(to, 1)) for name, to in coming.items()})
    for node in nodes:
        dependence.note(node, {"pi": 1.0})
    return dependence


def told(dependence, mean, now, workloads=("pi",)):
    return set(dependence.to_sum_up(workloads, lambda workload: mean, now))


def test_nodes_are_told_when_a_cost_has_moved_and_not_before():
    dependence = depending(NODES[:3], pi=NODES[3:5], web=NODES[5:6])
    assert told(dependence, 1.0, 0.0) == set(NODES[:5])
    assert told(dependence, 1.1, 1.0) == set()
    assert told(dependence, 1.2, 2.0) == set(NODES[:5])
    assert told(dependence, 1.2, 3.0, ["web", "never seen"]) == set(NODES[5:6])


def test_small_steps_add_up():
    dependence = depending(NODES[:1])
    told(dependence, 1.0, 0.0)
    assert any(told(dependence, 1 + step / 50, float(step)) for step in range(1, 9))


def test_a_node_that_has_observed_its_pods_depends_on_nothing():
    dependence = depending(NODES[:2])
    dependence.note(NODES[0], {"pi": 0.1})
    assert told(dependence, 1.0, 0.0) == {NODES[1]}
    dependence.forget(NODES[1])
    assert told(dependence, 2.0, 1.0) == set()


def test_costs_of_workloads_on_which_nothing_depends_are_dropped():
    dependence = depending(NODES[:1])
    told(dependence, 1.0, 0.0)
    dependence.forget_costs()
    assert told(dependence, 1.0, 1.0) == set(), "a load depends on it"
    dependence.forget(NODES[0])
    dependence.forget_costs()
    dependence.note(NODES[0], {"pi": 1.0})
    assert told(dependence, 1.0, 2.0) == {NODES[0]}


@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 10)), max_size=50))
def test_a_cost_that_changes_all_the_time_is_bounded(changes):
    dependence, now, count = depending(NODES), 0.0, 0
    for wait_s, mean in changes:
        now += wait_s
        count += len(told(dependence, mean, now))
    assert count <= MOST_PER_S * (1 + now) + len(NODES)


def test_what_was_put_off_is_made_up_for():
    dependence = depending(NODES)
    assert len(told(dependence, 1.0, 0.0)) == len(NODES)
    assert not told(dependence, 2.0, 0.1), "too many lately"
    assert len(told(dependence, 2.0, 0.1 + len(NODES) / MOST_PER_S)) == len(NODES)


def test_a_cost_that_changes_all_the_time_does_not_keep_others_from_their_turn():
    dependence = depending(NODES)
    for node in NODES:
        dependence.note(node, {"pi": 1.0, "web": 1.0})
    costs = {"pi": 1.0, "web": 1.0}
    for second in range(40):
        costs["pi"] = 3.0 - costs["pi"]
        told_of = set(dependence.to_sum_up(["pi", "web"], costs.__getitem__, float(second)))
        assert len(told_of) in (0, len(NODES))
    assert dependence._summed_up["web"] == 1.0
