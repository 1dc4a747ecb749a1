"""Request latencies: which requests belong to which time."""

import math

import pytest

from testbed.errors import ResultsError
from testbed.measurement.request_latency import latency_items, request_latencies
from testbed.results.schema import PodResult, Repetition, RequestSeries

WEB = RequestSeries("web-0", "web", "node-0", [0.0, 5.0, 10.0, 15.0, 20.0], [0.001, 0.002, 0.003, 0.004, 0.005])


def pod(job, created, finished):
    return PodResult(f"{job}-0", job, "node-0", created, created, created, finished, "succeeded")


PODS = [pod("web", 0.0, None), pod("pi", 10.0, 14.0), pod("pi", 10.0, 18.0), pod("stress", 1.0, 90.0)]


def repetition(requests=(WEB,), pods=PODS, measured=("pi",)):
    return Repetition("s", "x", 0, {}, dict.fromkeys(measured, 8.0), list(pods), [], requests=list(requests))


def test_before_is_until_the_first_pod_and_during_until_the_last_has_ended():
    assert request_latencies([repetition()], "web", "before") == [0.001, 0.002]
    assert request_latencies([repetition()], "web", "during") == [0.003, 0.004]
    assert request_latencies([repetition(), repetition()], "web", "during") == 2 * [0.003, 0.004]


def test_a_server_that_is_measured_does_not_disturb_itself():
    alone = repetition(pods=PODS[:1], measured=("web",))
    assert request_latencies([alone], "web", "before") == WEB.latency_s
    with pytest.raises(ResultsError, match="nobody sent a request to job web during the other jobs"):
        request_latencies([alone], "web", "during")


def test_pods_that_never_end_leave_the_time_open():
    unfinished = repetition(pods=[pod("pi", 10.0, None), pod("pi", 10.0, 14.0)])
    assert request_latencies([unfinished], "web", "during") == [0.003, 0.004, 0.005]


def test_a_job_that_does_not_serve_has_none():
    with pytest.raises(ResultsError, match="to job pi before"):
        request_latencies([repetition()], "pi", "before")


def test_items_are_per_job_and_phase():
    items = latency_items([WEB], PODS, ["pi"])
    assert [item.labels for item in items] == [
        {"metric": "request_latency", "job": "web", "phase": phase} for phase in ("before", "during")
    ]
    assert [item.data["max"] for item in items] == [0.002, 0.004]
    assert {item.unit for item in items} == {"s"}
    assert latency_items([], PODS, ["pi"]) == []
    assert not any(math.isnan(value) for item in items for value in item.data.values())
