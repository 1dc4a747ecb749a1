"""What scheduling takes: latencies from creation to binding, and pods per second."""

from testbed.measurement.scheduling import scheduling_items
from testbed.results.schema import PodResult


def pod(created, scheduled, job="pi"):
    return PodResult("pi-0", job, "node-0", created, scheduled, None, None, "unfinished")


def test_latency_and_throughput_are_of_the_pods_that_were_bound():
    latency, throughput = scheduling_items([pod(1.0, 1.5), pod(1.0, 3.0), pod(2.0, None), pod(0.0, 9.0, "x")], ["pi"])
    assert (latency.data["count"], latency.data["mean"], latency.unit) == (2, 1.25, "s")
    assert throughput.data == {"value": 1.0}
    assert throughput.unit == "pods/s"


def test_a_single_pod_has_no_throughput_and_none_has_nothing():
    assert [one.labels["metric"] for one in scheduling_items([pod(1.0, 1.5)], ["pi"])] == ["pod_scheduling_latency"]
    assert scheduling_items([pod(1.0, None)], ["pi"]) == []
