"""The variant `demand` with the real kube-scheduler: answers that are held, pods that are not blocked, and faults.

The nodes of these tests have 4 cores each. Another one has many, but a taint keeps all pods away from it, as from a
control plane's node.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from carico.clock import SystemClock
from carico.demand.settings import DEMAND
from testbed.real.kwok.carico import LocalCarico
from testbed.real.kwok.platform import KwokPlatform, fake_pod_spec, node_manifest, shape_nodes
from testbed.real.kwok.synthetic_demand import CORES, NodeSize
from testbed.real.platform import CARICO, Prepared
from testbed.real.run import ClusterRun
from testbed.real.waiting import wait_until
from testbed.schedulers.spec import parse_spec
from tests.kits.backlog import Backlog
from workloads.scenario import ClusterShape, JobSpec, NodePool, Scenario

pytestmark = pytest.mark.cluster

CLOCK = SystemClock()
SHAPE = ClusterShape(nodes=4, cores=4, memory="16Gi")
FULL, EMPTY = SHAPE.node_names[:2]
MOST_CORES = 8.0
"""The highest level of nodes of 4 cores: twice their cores."""
BARRED, TAINT = "control-plane", {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
WHOLE = 8.0
"""The cores demanded by a pod that leaves no room on its node."""
BOUND_TIMEOUT_S = 60.0
TRIES = 5
"""One try without delays is enough, because other load only delays."""


@pytest.fixture(scope="module")
def carico(carico_cluster, tmp_path_factory):
    """CARICO of the variant `demand`, with all nodes, shared by these tests."""
    api = carico_cluster.api
    shape_nodes(api, SHAPE)
    api.create_node(node_manifest(BARRED, NodePool(BARRED, 1, cores=64, memory="64Gi")) | {"spec": {"taints": [TAINT]}})
    sizes = dict.fromkeys(SHAPE.node_names, NodeSize(4.0, 16.0)) | {BARRED: NodeSize(64.0, 64.0)}
    slots = {node: size.cores for node, size in sizes.items()}
    folder = tmp_path_factory.mktemp("demand")
    one = LocalCarico(carico_cluster.kubeconfig, folder, slots, sizes=sizes, variant=DEMAND.name)
    try:
        one.open()
        yield one
    finally:
        one.close()
        api.delete_node(BARRED)


@dataclass(frozen=True)
class Demanding:
    """A test's pods, whose annotations say what they demand."""

    kwok: object
    carico: LocalCarico

    def backlog(self, name, cores, node=None):
        """Return pods that demand a number of cores each, and may run on one node only or on all."""
        # The name is an argument of the container: each backlog is another workload.
        spec = fake_pod_spec({"args": [name]})
        if node is not None:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        template = {"metadata": {"annotations": {CORES: str(cores)}}, "spec": spec}
        return Backlog(self.kwok.api, self.kwok.namespace, CARICO, CLOCK, name, template)

    @property
    def refusals(self):
        return self.carico.metric("carico_extender_decisions_total", result="unschedulable")

    @property
    def wake_ups(self):
        return self.carico.metric("carico_extender_wake_ups_total", result="done")

    def wait_until_settled(self, waiting=0):
        """Wait until no pod is on its way, and until a number of pods wait for a node."""

        def lacking():
            found = [self.carico.metric(f"carico_extender_{name}") for name in ("reservations", "waiting_pods")]
            return "" if found == [0, waiting] else "{:g} are on their way, {:g} wait".format(*found)

        wait_until(f"no pod is on its way and {waiting} wait", lacking, BOUND_TIMEOUT_S)


@pytest.fixture
def demanding(kwok_cluster, carico):
    one = Demanding(kwok_cluster, carico)
    carico.wait_until_reported()
    one.wait_until_settled()
    return one


@pytest.fixture
def followed():
    """A function that follows backlogs until the test ends, and returns them."""
    with ExitStack() as following:

        def follow(*backlogs):
            for backlog in backlogs:
                following.enter_context(backlog.followed())
            return backlogs

        yield follow


def test_an_answer_is_held_until_a_pod_ends(demanding, followed):
    """The node is full, and nothing happens for a second: without holding, the waiting pod would be refused."""
    (pods,) = followed(demanding.backlog("whole", WHOLE, FULL))
    pods.create(1)
    pods.wait_until_bound(BOUND_TIMEOUT_S)
    refused = []
    for number in range(TRIES):
        demanding.wait_until_settled()
        before = demanding.refusals
        pods.create(1)
        CLOCK.sleep_until(CLOCK.now() + 1.0)
        assert f"whole-{number + 1}" not in pods.bound
        demanding.kwok.delete(f"whole-{number}")
        pods.wait_until_bound(BOUND_TIMEOUT_S)
        refused.append(demanding.refusals - before)
        if not refused[-1]:
            break
    assert 0 in refused


def test_pods_that_could_go_elsewhere_are_not_blocked(demanding, followed):
    whole, stuck, free = followed(
        demanding.backlog("whole", WHOLE, FULL),
        demanding.backlog("stuck", 1.0, FULL),
        demanding.backlog("unstuck", 0.1, EMPTY),  # kube-scheduler lists pods by name: they are the last
    )
    whole.create(1)
    whole.wait_until_bound(BOUND_TIMEOUT_S)
    demanding.carico.process("kube-scheduler").end()
    stuck.create(20)
    free.create(20)
    demanding.carico.start("kube-scheduler")
    free.wait_until_bound(BOUND_TIMEOUT_S)
    assert set(Counter(pod.node for pod in free.bound.values())) == {EMPTY}
    assert stuck.bound == {}
    demanding.wait_until_settled(waiting=20)
    demanding.kwok.delete("whole-0")
    stuck.wait_until_bound(BOUND_TIMEOUT_S, 5)


def test_room_where_no_pod_may_go_wakes_no_pod(demanding, followed):
    """A daemon's pod fills the tainted node and ends; its room would be enough for the waiting pods, but is barred."""
    whole, stuck = followed(demanding.backlog("whole", WHOLE, FULL), demanding.backlog("stuck", 1.0, FULL))
    daemon = {"metadata": {"name": "daemon", "annotations": {CORES: "200"}}}
    demanding.kwok.api.create_pod(demanding.kwok.namespace, daemon | {"spec": fake_pod_spec() | {"nodeName": BARRED}})
    whole.create(1)
    whole.wait_until_bound(BOUND_TIMEOUT_S)
    demanding.wait_until_settled()
    before = demanding.refusals, demanding.wake_ups
    stuck.create(5)
    wait_until("a pod is refused", lambda: "" if demanding.refusals > before[0] else "none is", BOUND_TIMEOUT_S)
    CLOCK.sleep_until(CLOCK.now() + 3.0)
    demanding.kwok.delete("daemon")
    CLOCK.sleep_until(CLOCK.now() + 6.0)
    assert demanding.wake_ups == before[1]
    assert stuck.bound == {}


def most_cores(pods, cores):
    """Return the most cores that pods of a node demanded at the same time."""
    changes = sorted(
        change for pod in pods for change in ((pod.node, pod.started_s, cores), (pod.node, pod.finished_s, -cores))
    )
    now, most = Counter(), 0.0
    for node, _, change in changes:
        now[node] += change
        most = max(most, now[node])
    return most


def test_a_whole_scenario(demanding, carico_paper):
    job = JobSpec("pi", "pi", pods=60, parameters={"digits": 1500})
    scenario, scheduler = Scenario("demand", "more than fits", [job], SHAPE), parse_spec("carico:variant=demand")
    setup = KwokPlatform().check(scenario, scheduler, {})
    run = ClusterRun(
        demanding.kwok.api,
        demanding.kwok.namespace,
        Prepared({name: name for name in SHAPE.node_names}, setup.template),
        scenario=scenario,
        scheduler=scheduler,
        seed=1,
        run="test",
        clock=CLOCK,
        wall=time.time,
    )
    run.run()
    assert [pod.outcome for pod in run.pods] == ["succeeded"] * job.pods
    assert {pod.node for pod in run.pods} == set(SHAPE.node_names)
    bindings = Backlog(demanding.kwok.api, demanding.kwok.namespace, CARICO, CLOCK).bindings()
    assert Counter(bindings.values()) == {1: job.pods}
    demanding.wait_until_settled()
    most = most_cores(run.pods, 1.0)
    carico_paper.row("most cores that pods of a node demanded, of 4", most, None, "cores")
    # Below its level a node takes a whole pod; pods that will have stopped before another starts do not count.
    assert most <= MOST_CORES + 2


def test_a_restarted_extender_loses_no_pod(demanding, followed):
    (pods,) = followed(demanding.backlog("pod", 0.5))
    pods.create(20)
    pods.wait_until_bound(BOUND_TIMEOUT_S, 10)
    demanding.carico.process("extender").kill()
    pods.create(20)
    demanding.carico.start("extender")
    pods.wait_until_bound(BOUND_TIMEOUT_S)
    demanding.wait_until_settled()
    assert pods.moved == []
    assert Counter(pods.bindings().values()) == {1: 40}
    demanded = Counter(pod.node for pod in pods.bound.values())
    assert set(demanded) <= set(SHAPE.node_names)
    assert 0.5 * max(demanded.values()) <= MOST_CORES
