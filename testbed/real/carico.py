"""CARICO on a cluster whose nodes run pods: deployed as users deploy it, and reset between repetitions.

Agents run under every scheduler, because they provide the nodes' telemetry. Servers and schedulers run on the control
plane if it is a node, because the workers' CPUs are for the pods that are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from carico.clock import Clock
from carico.deployment.deploy import Deployment
from carico.deployment.manifests import (
    COMPONENT,
    KEPT_COSTS,
    KUBE_SCHEDULER,
    NAMESPACE,
    SELECTOR,
    Choices,
    Telemetry,
    lease,
    manifests,
)
from carico.deployment.rollout import wait_rolled_out
from carico.deployment.status import read_status
from carico.kube.objects import KubeObject, KubeObjects
from carico.model.variants import DEFAULT_VARIANT
from carico.variants import VARIANTS
from testbed.errors import UsageError
from testbed.real.agent_telemetry import AgentTelemetry
from testbed.real.lifecycle import Cluster
from testbed.real.namespaces import TESTBED_NAMESPACE
from testbed.real.settings import NodeSettings
from testbed.real.waiting import wait_until
from testbed.schedulers.spec import SchedulerSpec

READY_S = 180.0
FRESH_S = 60.0
_STOPPED = "carico.dev/stopped"
"""A node selector that no node matches; it stops the agents."""
_CHECKPOINT = "/var/lib/carico/state.json"


class Machines(Protocol):
    """The machines that are a cluster's nodes."""

    def provided_image(self, cluster: Cluster, name: str) -> str:
        """Return the full name of an image, such as "carico", after bringing it to all nodes that lack it."""
        ...

    def run_on_nodes(self, cluster: Cluster, *command: str) -> None:
        """Run a command on every node; raises TestbedError if it fails on one."""
        ...


class DeployedCarico:
    """CARICO on a session's cluster.

    Parameters
    ----------
    machines : Machines
    clock : Clock
    telemetry : {"cgroup", "procfs"}
        Where agents read: nodes that are containers have control groups, machines have all of procfs.
    on_control_plane : bool
        Whether the control plane is a node, which then runs servers and schedulers.
    patience : float
        How many times as long as usual pods may take to be ready and to answer probes: emulated machines are slow. They
        also get a single replica of everything, because a second one would take most of their CPUs.
    """

    def __init__(
        self,
        machines: Machines,
        clock: Clock,
        telemetry: Telemetry = "cgroup",
        on_control_plane: bool = True,
        patience: float = 1.0,
    ) -> None:
        self._machines = machines
        self._clock = clock
        self._telemetry: Telemetry = telemetry
        self._on_control_plane = on_control_plane
        self._patience = patience
        self._ready_s, self._fresh_s = patience * READY_S, patience * FRESH_S
        self._choices: Choices | None = None

    def deploy(self, cluster: Cluster, variant: str) -> bool:
        """Deploy CARICO, or bring it up to date; return whether it was not there before, and so has learned nothing.

        Raises
        ------
        CaricoError, TestbedError
            If that fails or takes too long.
        """
        choices = Choices(
            image=self._machines.provided_image(cluster, "carico"),
            # CARICO is compared with this version, and nodes that can pull nothing have its image.
            kube_scheduler_image=f"{KUBE_SCHEDULER}:{cluster.api.version().partition('+')[0]}",
            telemetry=self._telemetry,
            variant=variant,
            until_counted=False,  # as the thesis's variants are simulated
            excluded_namespaces=(TESTBED_NAMESPACE,),
            on_control_plane=self._on_control_plane,
            replicas=1 if self._patience > 1 else Choices.replicas,
            patience=self._patience,
        )
        kube, things = cluster.api.objects, _by_name(choices)
        is_new = kube.read(things["DaemonSet", "carico-agent"]) is None
        if is_new:
            # Nothing runs, but an earlier deployment may have left checkpoints on the nodes.
            self._machines.run_on_nodes(cluster, "rm", "-f", _CHECKPOINT)
        if is_new or choices != self._choices or not _is_configured(kube, things):
            Deployment(kube, self._clock, _discard).deploy(choices, datetime.now(UTC), force=True, wait_s=self._ready_s)
        self._choices = choices
        return is_new

    def begin(self, cluster: Cluster, variant: str, nodes: Mapping[str, str]) -> None:
        """Let CARICO run and have learned nothing; return when these nodes have reported. Raises as `deploy` does."""
        if not self.deploy(cluster, variant):
            self._forget(cluster)
        kube = cluster.api.objects

        def lacking() -> str:
            known = {node.name: node for node in read_status(kube, NAMESPACE, datetime.now(UTC)).nodes}
            silent = [name for name in nodes if name not in known or known[name].stale]
            return f"{', '.join(silent)} did not" if silent else ""

        wait_until("the agents have reported", lacking, self._fresh_s)

    def remove(self, cluster: Cluster) -> None:
        """Undeploy CARICO, and wait until it is gone."""
        Deployment(cluster.api.objects, self._clock, _discard).undeploy(NAMESPACE, self._ready_s)
        self._choices = None

    def _forget(self, cluster: Cluster) -> None:
        """Stop all that learn, remove what they have saved, and start them again."""
        assert self._choices is not None
        kube, things = cluster.api.objects, _by_name(self._choices)
        agents, schedulers = things["DaemonSet", "carico-agent"], things["StatefulSet", "carico-scheduler"]
        # What pools the nodes' knowledge: the aggregation servers, or under the variant demand the schedulers.
        pooling = things.get(("StatefulSet", "carico-aggregator"), schedulers)
        component = pooling["metadata"]["labels"][COMPONENT]
        selected = f"{SELECTOR},{COMPONENT} in (agent, {component})"
        # Agents and schedulers save what they know when they end, so they must be gone before that is removed.
        kube.patch(agents, _placed({_STOPPED: ""}))
        kube.patch(pooling, {"spec": {"replicas": 0}})
        for pod in kube.list("v1", "Pod", NAMESPACE, selected):
            kube.delete(pod)
        wait_until("what learns has ended", lambda: _listed(kube.list("v1", "Pod", NAMESPACE, selected)), self._ready_s)
        self._machines.run_on_nodes(cluster, "rm", "-f", _CHECKPOINT)
        if pooling is schedulers:
            kube.delete(lease(NAMESPACE))  # otherwise the next leader would wait until it has expired
            kube.patch(things["ConfigMap", KEPT_COSTS], {"data": None})
        kube.patch(pooling, {"spec": {"replicas": pooling["spec"]["replicas"]}})
        kube.patch(agents, _placed({_STOPPED: None}))
        wait_rolled_out(kube, [agents, pooling], self._clock, within_s=self._ready_s, tell=_discard)

    def telemetry(self, cluster: Cluster, nodes: Mapping[str, str]) -> AgentTelemetry:
        """Return the telemetry of these nodes' agents."""
        guests = self._telemetry == "procfs"  # control groups do not count what was stolen
        return AgentTelemetry(cluster.api.objects, NAMESPACE, nodes, self._clock, guests)


def check_agents(scheduler: SchedulerSpec, chosen: NodeSettings, provider: str) -> None:
    """Check that a scheduler can have the agents that it needs.

    Raises
    ------
    UsageError
        If it needs parameters that no deployment has, or the settings leave the agents out.
    """
    variant = scheduler.agents
    if variant is not None and variant.name not in VARIANTS:
        raise UsageError(f"{scheduler.text}: agents on {provider} take a named variant, without other parameters")
    if variant is not None and not chosen.agents:
        raise UsageError(f"{scheduler.text} cannot work without agents: leave out agents=false")


def agents_for(
    carico: DeployedCarico, cluster: Cluster, names: Mapping[str, str], scheduler: SchedulerSpec, chosen: NodeSettings
) -> AgentTelemetry | None:
    """Deploy agents that have learned nothing yet, and return their telemetry; None, and no agents, if none are wanted.

    Parameters
    ----------
    carico : DeployedCarico
    cluster : Cluster
    names : mapping of str to str
        The scenario's name of each node, by the node's name on the cluster.
    scheduler : SchedulerSpec
    chosen : NodeSettings
    """
    if not chosen.agents:
        carico.remove(cluster)
        return None
    carico.begin(cluster, (scheduler.agents or DEFAULT_VARIANT).name, names)
    return carico.telemetry(cluster, names)


def _by_name(choices: Choices) -> dict[tuple[str, str], KubeObject]:
    """Return the manifests by kind and name."""
    return {(thing["kind"], thing["metadata"]["name"]): thing for thing in manifests(choices)}


def _is_configured(kube: KubeObjects, things: Mapping[tuple[str, str], KubeObject]) -> bool:
    """Whether the deployed agents still have this configuration; tests may have deployed another one since."""
    wanted = things["ConfigMap", "carico-agent"]
    found = kube.read(wanted)
    return found is not None and found.get("data") == wanted["data"]


def _placed(selector: Mapping[str, str | None]) -> dict[str, object]:
    return {"spec": {"template": {"spec": {"nodeSelector": dict(selector)}}}}


def _listed(pods: Sequence[KubeObject]) -> str:
    return ", ".join(pod["metadata"]["name"] for pod in pods)


def _discard(line: str) -> None:
    """Discard progress: the session shows its own."""
