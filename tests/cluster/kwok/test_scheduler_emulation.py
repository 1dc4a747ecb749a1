"""The emulated kube-scheduler against the real one, with the same nodes and the same pods in the same order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import simpy

from carico.clock import SystemClock
from testbed.real.waiting import wait_until
from testbed.simulation.control_plane.api import ApiServer, Pod
from testbed.simulation.control_plane.framework import SchedulingFramework
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.kube_scheduler import KubeScheduler
from workloads.scenario import ClusterShape, JobSpec, NodePool, Requests

from .conftest import BOUND_TIMEOUT_S

pytestmark = pytest.mark.cluster

BARE = SimulationParameters(platform_millicpu=0, platform_memory_mib=0, pop_from_backoff=True)
"""KWOK's nodes run no platform pods; its kube-scheduler has version 1.34."""
AT_ONCE_S = 0.5
"""Tolerance of a wait. A pod that waited for the end of its back-off, as before 1.33, would exceed it: 0.8 to 1.8 s."""
TRIES = 5
"""The shortest wait counts, because other load only delays a pod."""
PODS = 60
THESIS = ClusterShape()
POOLS = ClusterShape(
    pools=[
        NodePool("small", 6, cores=2, memory="4Gi"),
        NodePool("fat", 4, cores=4, memory="32Gi"),
        NodePool("large", 5, cores=16, memory="24Gi", max_pods=20),
    ]
)
MIXES = {
    "none": [Requests()],
    "cpu": [Requests(cpu="100m")],
    "memory": [Requests(memory="300Mi")],
    "even": [Requests(cpu="500m", memory="1Gi")],
    "lopsided": [Requests(cpu="1"), Requests(memory="2Gi")],
    "mixed": [
        Requests(),
        Requests(cpu="250m"),
        Requests(memory="700Mi"),
        Requests(cpu="1", memory="512Mi"),
        Requests(cpu="130m", memory="1500Mi"),
        Requests(cpu="333m", memory="1Gi"),
    ],
}


def emulated(name, requests):
    job = JobSpec(name="one", workload="pi", pods=1)
    return Pod(name, name, job, 1.0, 0.0, millicpu=requests.millicpu, memory_bytes=requests.memory_bytes)


@pytest.mark.parametrize("shape", [THESIS, POOLS], ids=["alike", "pools"])
@pytest.mark.parametrize("mix", MIXES)
def test_placements_agree_up_to_ties(kwok_cluster, carico_paper, shape, mix):
    """The real kube-scheduler chooses one of the emulation's highest-scored nodes for every pod."""
    kwok_cluster.shape(shape)
    emulation = KubeScheduler(shape, BARE, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    names, differ, ties = shape.node_names, [], []
    for number in range(PODS):
        requests = MIXES[mix][int(rng.integers(len(MIXES[mix])))]
        pod = emulated(f"pod-{number}", requests)
        best = [names[node] for node in emulation.best(pod)]
        ties.append(len(best))
        kwok_cluster.submit(pod.name, requests)
        chosen = kwok_cluster.node_of(pod.name)
        if chosen not in best:
            differ.append(f"{pod.name} {requests}: {chosen}, not one of {best}")
        pod.node = names.index(chosen)
        emulation.reserve(pod, pod.node)
    carico_paper.row(f"pods of {PODS} placed differently", len(differ), None, "pods")
    carico_paper.row("nodes that the emulation scores highest, mean", np.mean(ties), None, "nodes")
    # If all nodes were tied, the test would check nothing.
    assert min(ties) < len(names)
    assert not differ


@pytest.fixture
def full_node(kwok_cluster):
    """A cluster with one node, filled by its only pod."""
    kwok_cluster.shape(ClusterShape(nodes=1, cores=1, memory="1Gi"))
    kwok_cluster.submit("first", Requests(cpu="800m"))
    kwok_cluster.wait_until_bound("first")
    return kwok_cluster


def test_a_pod_that_fits_nowhere_stays_pending_with_a_reason(full_node):
    full_node.submit("second", Requests(cpu="800m"))
    full_node.wait_until_refused("second")
    emulation = KubeScheduler(ClusterShape(nodes=1, cores=1, memory="1Gi"), BARE, np.random.default_rng(0))
    emulation.reserve(emulated("first", Requests(cpu="800m")), 0)
    assert emulation.select(emulated("second", Requests(cpu="800m"))) is None
    assert full_node.pod("second")["status"]["phase"] == "Pending"

    def failures():
        events = full_node.api.events(full_node.namespace)
        of_second = [event for event in events if event["involvedObject"]["name"] == "second"]
        return [event["message"] for event in of_second if event["reason"] == "FailedScheduling"]

    # The event and the pod's condition are sent independently.
    wait_until("there is an event of the failure", lambda: "" if failures() else "there is none", BOUND_TIMEOUT_S)
    assert all("Insufficient cpu" in message for message in failures())


def emulated_wait(room_after_s):
    """Return the seconds from when there is room until the refused pod is bound, in virtual time."""
    env = simpy.Environment()
    api = ApiServer(env, BARE.watch_latency_s)
    shape = ClusterShape(nodes=1, cores=1, memory="1Gi")
    SchedulingFramework(env, api, BARE, KubeScheduler(shape, BARE, np.random.default_rng(0)))
    first, second = (emulated(name, Requests(cpu="800m")) for name in ("first", "second"))
    api.create(first)
    env.run(until=1.0)
    api.create(second)
    env.run(until=1.0 + room_after_s)
    api.show_finished(first)
    env.run(until=60.0)
    return second.scheduled_s - 1.0 - room_after_s


@pytest.mark.parametrize("room_after_s", [0.2, 3.0])
def test_a_refused_pod_is_tried_again_when_there_is_room(full_node, carico_paper, room_after_s):
    """The real wait equals the emulated one, both during the first back-off of a second and after it."""
    clock, expected, took = SystemClock(), emulated_wait(room_after_s), []
    pods = ["first", *(f"waiting-{number}" for number in range(TRIES))]
    for there, waiting in pairwise(pods):
        full_node.submit(waiting, Requests(cpu="800m"))
        clock.sleep_until(full_node.wait_until_refused(waiting) + room_after_s)
        full_node.delete(there)
        room = clock.now()
        took.append(full_node.wait_until_bound(waiting) - room)
        if took[-1] < expected + AT_ONCE_S:
            break
    carico_paper.row(f"wait after room {room_after_s:g} s after refusal, emulated", expected, None, "s")
    carico_paper.row(f"wait after room {room_after_s:g} s after refusal, real", min(took), None, "s")
    assert min(took) == pytest.approx(expected, abs=AT_ONCE_S), took
