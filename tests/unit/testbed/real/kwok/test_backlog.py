"""Measurements of a backlog of pods: how fast they were bound, and whether nodes got too many."""

import pytest

from carico.clock import SystemClock
from testbed.real.waiting import wait_until
from tests.kits.backlog import Backlog, Bound


@pytest.fixture
def backlog(api):
    return Backlog(api, "carico-test", "carico", SystemClock())


def test_pods_name_their_scheduler(backlog, server, api):
    backlog.create(2)
    backlog.create(1)
    pods = api.pods_in("carico-test").list()[0]
    assert [pod["metadata"]["name"] for pod in pods] == ["pod-0", "pod-1", "pod-2"]
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"carico"}


def seen(name, node=None, phase="Pending"):
    return {
        "metadata": {"name": name, "namespace": "carico-test", "uid": name},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


def tell(server, pod):
    server.put(f"/api/v1/namespaces/carico-test/pods/{pod['metadata']['name']}", **pod)


def test_bindings_are_followed(backlog, server):
    with backlog.followed():
        first, second = "pod-0", "pod-1"
        for told in [(first,), (first, "node-0"), (first, "node-0", "Running"), ("other-0", "node-0")]:
            tell(server, seen(*told))
        tell(server, seen(second, "node-1"))
        backlog.wait_until_bound(10, pods=2)
        tell(server, seen(second, "node-2"))
        wait_until("the second node is seen", lambda: "" if backlog.moved else "not yet", 10, 0.01)
    assert {name: pod.node for name, pod in backlog.bound.items()} == {first: "node-0", second: "node-1"}
    assert backlog.bound[first].running_s is not None
    assert backlog.bound[second].running_s is None
    assert backlog.moved == [second]


def test_the_rate_is_measured_from_the_first_binding_to_the_last(backlog):
    backlog.bound = {str(at): Bound("node-0", 10.0 + at / 4) for at in range(9)}
    assert backlog.pods_per_s == 4.0


@pytest.mark.parametrize(
    ("pods", "above"),
    [
        ([(0.0, 0.5), (1.0, 1.5)], 0),
        # The third is one too many, because the first two were reported as running long ago.
        ([(0.0, 0.5), (1.0, 1.5), (20.0, None)], 1),
        # Here the second began to run just before: the node's report did not have it yet.
        ([(0.0, 0.5), (1.0, 18.0), (20.0, None)], 0),
        ([(0.0, 0.5), (1.0, 18.0), (20.0, None), (20.1, None)], 1),
        # None of them had begun to run.
        ([(0.0, None), (0.1, None), (0.2, None), (0.3, None)], 2),
    ],
)
def test_more_pods_than_reservations_allow_are_found(backlog, pods, above):
    backlog.bound = {str(number): Bound("node-0", *times) for number, times in enumerate(pods)}
    assert backlog.above({"node-0": 2.0}, 6.0) == ({"node-0": above} if above else {})


def test_bindings_are_counted_by_their_events(backlog, server):
    told = [
        ("Scheduled", "once", {}),
        ("FailedScheduling", "refused", {"series": {"count": 5}}),
        ("Scheduled", "by-two", {"count": None}),
        ("Scheduled", "by-two", {"count": 1}),
        # One scheduler counts its second binding in the same Event.
        ("Scheduled", "twice", {"count": None, "series": {"count": 2}}),
        ("Scheduled", "twice-by-an-old-one", {"count": 2, "series": None}),
    ]
    for number, (reason, name, counts) in enumerate(told):
        event = {"metadata": {}, "reason": reason, "involvedObject": {"name": name}, **counts}
        server.put(f"/api/v1/namespaces/carico-test/events/{number}", **event)
    assert backlog.bindings() == {"once": 1, "by-two": 2, "twice": 2, "twice-by-an-old-one": 2}
