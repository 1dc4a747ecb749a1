"""Faults while a job runs: no pod is lost, none is bound twice, and CARICO recovers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import pytest

from carico.deployment.manifests import NAMESPACE, SELECTOR, lease
from carico.deployment.status import DeploymentStatus, read_status
from carico.errors import KubeError
from testbed.errors import DockerFailed
from testbed.experiment.provider import Progress
from testbed.real.api import Json
from testbed.real.kind.maker import KindMaker
from testbed.real.waiting import wait_until
from testbed.results.schema import NodeSeries, Repetition
from testbed.schedulers.spec import parse_spec
from workloads.scenario import Scenario, load_scenario

from .invariants import every_index_completed, every_pod_completed_once, no_pod_was_bound_twice

pytestmark = pytest.mark.cluster

SCENARIO = "pi-two-nodes"
WHOLE_S = 300.0
"""A kubelet restarts a killed container immediately, and after 10 s or more if it is killed again; then its process
must report."""
VISIBLE = 0.2
"""A pressure above that of idle nodes, which was at most 0.1, for single seconds."""
ROLLED_S = 5.0
SILENT_S = 3.0
"""A rolled agent is silent for longer: its pod ends, and the new pod first prepares a folder and gets a certificate."""
KEPT = 0.25
"""The error up to which an estimate counts as right (tests/cluster/test_estimators.py)."""
TAKEN_S = 2.0
UNIFIED = "/sys/fs/cgroup/unified"
SETTINGS = {"agents": True, "warm_up_s": 5.0}
"""Faults are injected and no figure is compared, so the usual warm-up is not waited for."""

Injury = Callable[[], object]
"""Injures the cluster, or returns False if it is too early; then it is called again."""


class Injured:
    """Runs the job on the session's cluster, and injures the cluster at given times."""

    def __init__(self, cluster, maker: KindMaker, provider, seed: int) -> None:
        self.cluster = cluster
        self.maker = maker
        self.nodes_of: dict[str, set[str]] = {}
        """The nodes on which each pod of the job was seen, by UID."""
        self._provider = provider
        self._seed = seed
        nodes = self.maker.nodes(cluster.name)
        self.control_plane = next(node for node in nodes if node.endswith("control-plane"))
        self.workers = [node for node in nodes if node != self.control_plane]

    def kill(self, node: str, program: str) -> None:
        """Kill the processes of a node whose command line contains `program`; there must be one."""
        processes = self.maker.docker.call("exec", node, "pgrep", "--full", program).split()
        self.maker.docker.call("exec", node, "kill", "-KILL", *processes)

    def kill_busy_node(self, node: str) -> bool:
        """Stop a node if a pod of the job runs there; return whether it was stopped."""
        pods = self._pods()
        if not any(pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running" for pod in pods):
            return False
        self.maker.docker.call("kill", node)
        return True

    def run(self, injuries: Mapping[float, Injury], scenario: Scenario | None = None) -> Repetition:
        """Run the job under CARICO; every injury happens within a second of its time, in seconds since the start."""
        left = dict(sorted(injuries.items()))
        began_s: list[float] = []

        def on_progress(progress: Progress) -> None:
            if progress.phase != "running":
                return
            now_s = time.monotonic()
            began_s.append(now_s)
            self._note_nodes()
            at_s = next(iter(left), math.inf)
            if now_s - began_s[0] >= at_s and left[at_s]() is not False:
                del left[at_s]

        scenario = scenario or load_scenario(SCENARIO)
        run = self._provider.check(scenario, parse_spec("carico"), SETTINGS).run(self._seed, on_progress)
        assert not left, f"the job was over before {list(left)} s"
        return run

    def _pods(self) -> list[Json]:
        run = next(space["metadata"]["name"] for space in self.cluster.api.namespaces())
        return self.cluster.api.pods_in(run).list()[0]

    def _note_nodes(self) -> None:
        with suppress(KubeError):  # the API server may be what was injured
            for pod in self._pods():
                if node := pod["spec"].get("nodeName"):
                    self.nodes_of.setdefault(pod["metadata"]["uid"], set()).add(node)

    def wait_until_whole(self) -> None:
        """Wait until all components run and all nodes report."""
        wait_until("CARICO is whole", lambda: "; ".join(self.status().problems), WHOLE_S)

    def status(self) -> DeploymentStatus:
        """Return the status that `carico status` prints."""
        return read_status(self.cluster.api.objects, NAMESPACE, datetime.now(UTC))


def of_long_pods() -> Scenario:
    """Return the scenario with half as many pods of four times the work, which run longer than an injury takes."""
    scenario = load_scenario(SCENARIO)
    (job,) = scenario.jobs
    longer = msgspec.structs.replace(job, pods=job.pods // 2, parameters={"digits": 2 * job.parameters["digits"]})
    return msgspec.structs.replace(scenario, jobs=[longer])


@pytest.fixture
def injured(carico_cluster, kind_maker, carico_provider, carico_experiment) -> Injured:
    return Injured(carico_cluster, kind_maker, carico_provider, carico_experiment.seed)


def test_carico_killed_under_load(injured):
    """All agents, then all aggregators, then all extenders are killed: pods wait a moment, and the job continues."""
    injuries = {
        3: lambda: [injured.kill(worker, "carico agent") for worker in injured.workers],
        7: lambda: injured.kill(injured.control_plane, "carico aggregator"),
        11: lambda: injured.kill(injured.control_plane, "carico extender"),
    }
    every_pod_completed_once(injured.run(injuries))
    injured.wait_until_whole()


def test_the_leading_scheduler_is_deleted_under_load(injured):
    """Afterwards the other scheduler leads, whose extender knows all nodes, or the new pod of the deleted scheduler."""
    led = []

    def holder() -> str:
        return injured.cluster.api.objects.read(lease(NAMESPACE))["spec"]["holderIdentity"]

    def delete_the_leader() -> None:
        led.append(holder())
        name = {"name": injured.status().leader, "namespace": NAMESPACE}
        assert injured.cluster.api.objects.delete({"apiVersion": "v1", "kind": "Pod", "metadata": name})

    every_pod_completed_once(injured.run({3: delete_the_leader}))
    injured.wait_until_whole()
    assert injured.status().leader
    assert holder() not in led  # a new pod has the same name but another identity


def test_the_api_server_restarted_under_load(injured):
    """Every index completes, no pod is bound twice, and nothing fails.

    As documented, a Job controller may make a second pod for an index if it has not seen the first one yet. Both were
    observed under other load: that the second pod was removed before it ended, and that it succeeded, too.
    """
    run = injured.run({4: lambda: injured.kill(injured.control_plane, "^kube-apiserver ")})
    every_index_completed(run)
    no_pod_was_bound_twice(injured.nodes_of)
    assert {pod.outcome for pod in run.pods} <= {"succeeded", "unfinished"}
    injured.wait_until_whole()


def test_a_node_stopped_and_started_under_load(injured):
    """Pods on the node are lost and replaced, there or elsewhere; the node offers room again."""
    docker, node = injured.maker.docker, injured.workers[1]
    injuries = {4: lambda: injured.kill_busy_node(node), 10: lambda: docker.call("start", node)}
    try:
        run = injured.run(injuries, of_long_pods())
    finally:
        docker.call("start", node)  # other tests need the node, even if this one fails
    every_pod_completed_once(run, replaced=True)
    assert any(pod.outcome != "succeeded" for pod in run.pods)
    injured.wait_until_whole()


def test_agents_keep_their_estimates_when_rolled_under_load(injured, carico_paper):
    """The pod cost is the same before and after the roll; without checkpoints agents would have to learn it again."""
    kube = injured.cluster.api.objects
    rolled = {"spec": {"template": {"metadata": {"annotations": {"carico.dev/rolled-at": str(time.time_ns())}}}}}

    def roll() -> None:
        (agents,) = kube.list("apps/v1", "DaemonSet", NAMESPACE, SELECTOR)
        kube.patch(agents, rolled)

    # Agents are rolled one after the other, with a readiness probe every ten seconds: a worker's turn is within 30 s.
    run = injured.run({ROLLED_S: roll}, of_long_pods())
    every_pod_completed_once(run)
    injured.wait_until_whole()
    silences = {node.name: silence_and_kept_cost(node) for node in run.nodes}
    for name, (silent_s, kept) in silences.items():
        carico_paper.row(f"{name}: an agent's longest silence, s", silent_s, None)
        carico_paper.row(f"{name}: first cost / baseline after it, of the last before", kept, None)
    found = [kept for silent_s, kept in silences.values() if silent_s >= SILENT_S]
    assert found, f"no agent was silent for {SILENT_S:g} s, as a rolled one is; longest silences: {silences}"
    assert max(abs(kept - 1) for kept in found) < KEPT


def silence_and_kept_cost(node: NodeSeries) -> tuple[float, float]:
    """Return an agent's longest silence, seconds, and the ratio of the pod cost (over baseline) after and before it."""
    reported = [
        (at_s, cost / baseline)
        for at_s, cost, baseline in zip(node.time_s, node.pod_cost, node.baseline, strict=True)
        if cost is not None and baseline is not None
    ]
    silences = [
        (after[0] - before[0], after[1] / before[1]) for before, after in pairwise(reported) if before[0] >= ROLLED_S
    ]
    return max(silences, default=(0.0, 0.0))


@pytest.fixture
def take_pressure(injured) -> Iterator[Callable[[], int]]:
    """A function that removes a node's pressure files, restarts the agent there, and returns the node's index."""
    number, docker = 0, injured.maker.docker
    node = injured.workers[number]
    if "unified" not in docker.call("exec", node, "ls", "/sys/fs/cgroup").split():
        pytest.skip("pressure files can be removed only where they have their own hierarchy (cgroup v1, hybrid)")

    def take() -> int:
        docker.call("exec", node, "umount", "--lazy", UNIFIED)
        assert UNIFIED not in docker.call("exec", node, "cat", "/proc/mounts")
        injured.kill(node, "carico agent")
        return number

    yield take
    if UNIFIED not in docker.call("exec", node, "cat", "/proc/mounts"):
        docker.call("exec", node, "mount", "-t", "cgroup2", "cgroup2", UNIFIED)
        with suppress(DockerFailed):  # the kubelet may be about to start the agent
            injured.kill(node, "carico agent")
        injured.wait_until_whole()


def test_a_node_without_pressure_files_offers_less_under_load(injured, take_pressure, carico_paper):
    """The agent uses the time for which the quota throttles the node in place of pressure; no pod is lost."""
    without: list[int] = []
    # Short pods might be over before the agent, which begins anew, has reported some of them.
    run = injured.run({TAKEN_S: lambda: without.append(take_pressure())}, of_long_pods())
    every_pod_completed_once(run)
    injured.wait_until_whole()
    node = run.nodes[without[0]]
    seconds = zip(node.time_s, node.running_pods, node.cpu_pressure, node.pod_capacity, strict=True)
    loaded = [row[2:] for row in seconds if None not in row and row[0] > TAKEN_S + SILENT_S and row[1]]
    assert loaded, "the job was over before the agent reported again"
    pressure, capacity = max(row[0] for row in loaded), min(row[1] for row in loaded)
    carico_paper.row("cpu_pressure without pressure files, under load", pressure, None)
    carico_paper.row("Pod-Capacity without pressure files, under load", capacity, None)
    assert pressure > VISIBLE
    assert capacity < 1
