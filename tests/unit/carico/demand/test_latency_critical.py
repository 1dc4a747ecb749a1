"""Nodes with latency-critical pods are kept half idle, and no pod waits for ever because it is too large for that."""

import numpy as np
import pytest

from carico.demand.filling import level
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.scheduling.scheduler import RESERVATION_TIMEOUT_S

SERVER = Kind("light", critical=True)


def fill(scheduler, nodes, workload="pi", most=20):
    """Place pods until one is refused, and return their nodes."""
    placed = []
    for number in range(most):
        node = scheduler.filter(f"{workload}-{number}", Kind(workload), nodes, 0.0).node
        if node is None:
            break
        placed.append(node)
    return placed


@pytest.fixture
def serving(scheduler, report):
    """Nodes a and b of four cores; a server runs on a, as the API shows."""
    for node, pods in (("a", {"server": "light"}), ("b", {})):
        scheduler.report(report(node, pods), 0.0)
    scheduler.pod_changed("server", "light", "a", False, 0.0, running=True, critical=True)
    for number in range(100):
        scheduler.pod_waits(f"crowd-{number}", Kind("pi"))
    return scheduler


def test_a_pod_must_fit_as_a_whole_below_half_of_the_cores():
    cores = np.array([4.0, 4.0])
    critical = np.array([True, False])
    for share in (False, True):
        usual = level(DEMAND, cores, 1.0, share=share)
        assert level(DEMAND, cores, 1.0, share=share, critical=critical).tolist() == [0.5 * 4.0 - 1.0, usual[1]]


def test_the_servers_node_takes_fewer_pods(serving):
    placed = fill(serving, ["a", "b"])
    assert placed.count("a") == 1, "0.3 + 1 <= 2, and a second pod would not fit as a whole"
    assert placed.count("b") == 5


def test_a_refusal_says_that_the_node_is_kept_half_idle(serving, report):
    serving.report(report("b", {f"pod-{n}": "pi" for n in range(5)}), 0.0)
    refused = serving.filter("wide", Kind("wide"), ["a", "b"], 0.0).refused
    assert refused["a"] == "kept half idle for a latency-critical pod: 1.30 cores are lacking"
    assert refused["b"].startswith("CPU full: its load is")


def test_its_level_is_shown(serving):
    assert {each.node: each.level_cores for each in serving.nodes(0.0)}["a"] == 2.0


@pytest.mark.parametrize("ends", [True, False])
def test_it_is_a_node_like_others_when_the_server_is_gone(serving, report, ends):
    if ends:
        serving.pod_changed("server", "light", "a", True, 0.0)
    else:
        serving.pod_gone("server", 0.0)
    serving.report(report("a"), 0.0)
    assert fill(serving, ["a", "b"]).count("a") == 5


def test_a_server_counts_from_the_decision_on(scheduler, report):
    scheduler.report(report("a"), 0.0)
    assert scheduler.filter("server", SERVER, ["a"], 0.0).node == "a"
    assert fill(scheduler, ["a"]) == ["a"]
    for overdue_s in (30.0, RESERVATION_TIMEOUT_S + 1):  # the API never shows the server as bound
        scheduler.report(report("a"), overdue_s)
        scheduler.tick(overdue_s)
    assert scheduler.loads.critical(scheduler.loads.rows(["a"])).tolist() == [False]


def test_a_pod_that_fits_nowhere_is_not_put_beside_a_server_if_another_node_will_take_it(serving, report):
    wide = Kind("wide")
    assert serving.filter("first", wide, ["a", "b"], 0.0).node == "b"
    serving.report(report("b", {f"pod-{n}": "pi" for n in range(5)}), 0.0)
    assert serving.filter("second", wide, ["a", "b"], 0.0).node is None


@pytest.mark.parametrize("other", ["silent", "too old"])
def test_a_pod_that_is_too_large_for_half_a_node_goes_where_all_nodes_have_servers(serving, report, other):
    if other == "too old":
        serving.report(report("old"), 0.0)
    serving.report(report("a", {"server": "light"}), 10.0)
    assert serving.filter("first", Kind("wide"), ["a", other.removeprefix("too ")], 10.0).node == "a"
    assert serving.filter("next", Kind("pi"), ["a"], 10.0).node is None, "which would fit, if there were room"


def test_servers_beside_servers_are_limited_like_other_pods(serving):
    placed = [serving.filter(f"server-{number}", SERVER, ["a"], 0.0).node for number in range(30)]
    assert placed.count("a") == 16, "0.3 + 16 x 0.1 < 2"


def test_memory_counts_beside_a_server(serving, report):
    serving.report(report("a", {"server": "light"}, held=7.8), 0.0)
    assert serving.filter("one", Kind("pi"), ["a"], 0.0).node is None


@pytest.mark.parametrize("labelled", [True, False])
def test_the_label_may_change_while_the_pod_runs(scheduler, report, labelled):
    scheduler.report(report("a", {"server": "light"}), 0.0)
    for critical in (not labelled, labelled):
        scheduler.pod_changed("server", "light", "a", False, 0.0, running=True, critical=critical)
    assert scheduler.loads.critical(scheduler.loads.rows(["a"])).tolist() == [labelled]


def test_a_node_that_joins_later_keeps_its_server(scheduler, report):
    scheduler.pod_changed("server", "light", "late", False, 0.0, running=True, critical=True)
    scheduler.report(report("late", {"server": "light"}), 0.0)
    assert scheduler.loads.critical(scheduler.loads.rows(["late"])).tolist() == [True]
    assert fill(scheduler, ["late"]) == ["late"]
