"""Utilisation of the nodes over time."""

import msgspec
import pytest

from testbed.errors import ResultsError
from testbed.measurement.utilisation import (
    METRICS,
    cluster_mean,
    median_between,
    running_pods,
    time_to_utilisation,
    utilisation_items,
)
from testbed.results.schema import NodeSeries, Repetition


def node(name, cpu, running=None):
    seconds = len(cpu)
    unknown = [None] * seconds
    return NodeSeries(
        name=name,
        time_s=[float(second + 1) for second in range(seconds)],
        running_pods=running or [0] * seconds,
        cpu_utilisation=cpu,
        cpu_pressure=[0.5] * seconds,
        memory_utilisation=[0.25] * seconds,
        capacity_signal=unknown,
        baseline=unknown,
        pod_cost=unknown,
        pod_capacity=unknown,
    )


NODES = [node("a", [0.0, 0.9, 1.0, 1.0], [0, 1, 2, 3]), node("b", [0.0, 0.9, 0.9, 0.5], [0, 0, 0, 4])]


def test_mean_over_the_nodes_at_every_second():
    assert cluster_mean(NODES, "cpu_utilisation").tolist() == pytest.approx([0.0, 0.9, 0.95, 0.75])
    assert cluster_mean(NODES, "running_pods").tolist() == [0, 0.5, 1, 3.5]


def test_running_pods_as_an_array():
    repetition = Repetition("s", "x", seed=0, settings={}, job_completion_time_s={}, pods=[], nodes=NODES)
    assert running_pods(repetition).tolist() == [[0, 1, 2, 3], [0, 0, 0, 4]]


@pytest.mark.parametrize(("share", "seconds"), [(0.95, 3.0), (0.9, 2.0), (0.0, 1.0), (0.96, None)])
def test_time_until_the_cluster_is_that_busy(share, seconds):
    assert time_to_utilisation(NODES, share) == seconds


def test_what_a_hypervisor_gave_to_others_is_an_item_where_it_was_recorded():
    guests = [msgspec.structs.replace(one, cpu_stolen=[0.0, 0.5, None, 0.1]) for one in NODES]
    items = {item.labels["metric"]: item for item in utilisation_items(guests)}
    assert items["cpu_stolen"].data["mean"] == pytest.approx(0.2)
    assert b"cpu_stolen" not in msgspec.json.encode(NODES)
    assert NODES[0].values("cpu_stolen") == [None] * 4


def test_items_are_over_all_nodes_and_seconds():
    items = {item.labels["metric"]: item for item in utilisation_items(NODES)}
    assert set(items) == {*METRICS, "time_to_95_percent_cpu"}
    assert (items["running_pods"].unit, items["running_pods"].data["max"]) == ("pods", 4)
    assert (items["cpu_utilisation"].unit, items["cpu_utilisation"].data["count"]) == ("share", 8)
    assert items["cpu_pressure"].data["mean"] == 0.5
    assert items["time_to_95_percent_cpu"].data == {"value": 3.0}


@pytest.mark.parametrize(("begin_s", "end_s", "median"), [(0, 4, 0.95), (0, 3, 0.9), (2, 3, 1.0), (3, 99, 1.0)])
def test_median_over_the_seconds_that_end_in_a_span(begin_s, end_s, median):
    assert median_between(NODES[0], "cpu_utilisation", begin_s, end_s) == median


@pytest.mark.parametrize(("metric", "begin_s"), [("cpu_utilisation", 4), ("capacity_signal", 0)])
def test_a_span_without_a_value_has_no_median(metric, begin_s):
    with pytest.raises(ResultsError, match=f"a has no {metric} from {begin_s} to 9 s"):
        median_between(NODES[0], metric, begin_s, 9)


def test_a_cluster_that_was_never_that_busy_has_no_such_time():
    metrics = [item.labels["metric"] for item in utilisation_items([node("a", [0.1])])]
    assert metrics == list(METRICS)


@pytest.mark.parametrize("nodes", [[], [node("a", [])]])
def test_nothing_recorded_is_no_item(nodes):
    assert utilisation_items(nodes) == []
