"""Nodes are believed about workloads that they ran, as the API shows, and about no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.regression import Estimate
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.demand.witnesses import MOST_ENDED, Witnesses

CHEAP = {"pi": Estimate(0.2, 1e-6)}


@pytest.fixture
def scheduler():
    return DemandScheduler(DEMAND, sees_pods=True)


def cost(scheduler):
    return scheduler.cost("pi")[0]


def test_a_node_cannot_make_up_what_a_workload_costs(scheduler, report):
    unknown = cost(scheduler)
    scheduler.report(report("liar", known=CHEAP), 1.0)
    scheduler.report(report("liar", {"made-up": "pi"}, known=CHEAP), 2.0)
    assert cost(scheduler) == unknown
    assert [each.workload for each in scheduler.costs(2.0)] == ["pi@liar"]
    scheduler.report(report("liar", known=CHEAP), 3.0)
    assert scheduler.costs(3.0) == [], "what only a node says is shown while it says that it runs"
    scheduler.tick(10.0)
    assert scheduler.save(10.0) == {"cpu": {}, "memory": {}, "reads": {}}


def test_a_node_is_believed_from_the_moment_that_the_api_shows_the_pod_there(scheduler, report):
    scheduler.report(report("a", {"one": "pi"}, known=CHEAP), 1.0)
    scheduler.pod_changed("one", "pi", "a", False, 1.5, running=True)
    scheduler.report(report("a", {"one": "pi"}, known=CHEAP), 2.0)
    assert cost(scheduler).mean == pytest.approx(0.2, abs=0.01)
    scheduler.report(report("b", known={"pi": Estimate(5.0, 1e-6)}), 2.0)
    assert cost(scheduler).mean == pytest.approx(0.2, abs=0.01)


def test_a_node_is_believed_about_pods_that_have_ended_there(scheduler, report):
    scheduler.pod_changed("one", "pi", "a", False, 1.0, running=True)
    scheduler.pod_gone("one", 2.0)
    scheduler.pod_gone("one", 2.0)
    scheduler.report(report("a", known=CHEAP), 3.0)
    assert cost(scheduler).mean == pytest.approx(0.2, abs=0.01)


def test_a_node_is_believed_about_pods_that_are_on_their_way_there(scheduler, report):
    """The watch may show the binding after the node has reported the pod."""
    scheduler.report(report("a", known={}), 1.0)
    assert scheduler.filter("one", Kind("pi"), ["a"], 1.0).node == "a"
    scheduler.report(report("a", {"two": None}, known=CHEAP), 2.0)
    assert cost(scheduler).mean == pytest.approx(0.2, abs=0.01)


def test_what_a_node_carries_is_the_same_under_its_own_names(report):
    loads = []
    for sees_pods in (False, True):
        scheduler = DemandScheduler(DEMAND, sees_pods=sees_pods)
        scheduler.report(report("a", {"one": "pi", "two": "pi", "platform": None}, known=CHEAP), 1.0)
        loads.append(scheduler.nodes(1.0))
    assert loads[0] == loads[1]


def test_a_node_that_left_is_not_remembered(scheduler, report):
    scheduler.pod_changed("one", "pi", "a", False, 1.0, running=True)
    scheduler.report(report("a", known=CHEAP), 1.0)
    scheduler.pod_gone("one", 2.0)
    scheduler.tick(1000.0)
    scheduler.report(report("a", known=CHEAP), 1001.0)
    assert cost(scheduler).variance > 0.2


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans()), max_size=30))
def test_a_node_saw_what_started_there(events):
    witnesses, started, running = Witnesses(), set(), []
    for node, workload, starts in events:
        if starts:
            witnesses.started(node, workload)
            started.add((node, workload))
            running.append((node, workload))
        elif (node, workload) in running:
            witnesses.ended(node, workload)
            running.remove((node, workload))
    for node in "ab":
        for workload in "xyz":
            assert witnesses.saw(node, workload) == ((node, workload) in started)
    witnesses.forget("a")
    for workload in "xyz":
        assert witnesses.saw("a", workload) == (("a", workload) in running)


def test_what_has_ended_is_bounded_and_what_runs_is_not():
    witnesses = Witnesses()
    for number in range(MOST_ENDED + 10):
        witnesses.started("a", f"runs-{number}")
        witnesses.started("a", f"ended-{number}")
        witnesses.ended("a", f"ended-{number}")
    seen = [number for number in range(MOST_ENDED + 10) if witnesses.saw("a", f"ended-{number}")]
    assert seen == list(range(10, MOST_ENDED + 10)), "the latest"
    assert all(witnesses.saw("a", f"runs-{number}") for number in range(MOST_ENDED + 10))
