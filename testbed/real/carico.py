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
_AGENTS = f"{SELECTOR},{COMPONENT}=agent"
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
        How many times as long as usual pods may take to be ready: emulated machines start them slowly.
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
        self._ready_s, self._fresh_s = patience * READY_S, patience * FRESH_S
        self._choices: Choices | None = None

    def deploy(self, cluster: Cluster, variant: str) -> None:
        """Deploy CARICO, or bring it up to date.

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
        )
        kube = cluster.api.objects
        if choices == self._choices and _is_configured(kube, choices):
            return
        Deployment(kube, self._clock, _discard).deploy(choices, datetime.now(UTC), force=True, wait_s=self._ready_s)
        self._choices = choices

    def remove(self, cluster: Cluster) -> None:
        """Undeploy CARICO, and wait until it is gone."""
        Deployment(cluster.api.objects, self._clock, _discard).undeploy(NAMESPACE, self._ready_s)
        self._choices = None

    def forget(self, cluster: Cluster, nodes: Mapping[str, str]) -> None:
        """Restart agents and servers, forgetting what they have learned, and wait until the nodes have reported."""
        assert self._choices is not None
        kube = cluster.api.objects
        named = {
            thing["metadata"]["name"]: thing
            for thing in manifests(self._choices)
            if "template" in thing.get("spec", {})
        }
        agents = named["carico-agent"]
        # What pools the nodes' knowledge: the aggregation servers, or under the variant demand the schedulers.
        pooling = named.get("carico-aggregator", named["carico-scheduler"])
        component = pooling["metadata"]["labels"][COMPONENT]
        # An agent writes its checkpoint when it ends, so it must be gone before the checkpoint is removed.
        kube.patch(agents, _placed({_STOPPED: ""}))
        for pod in kube.list("v1", "Pod", NAMESPACE, f"{SELECTOR},{COMPONENT} in (agent, {component})"):
            kube.delete(pod)
        if component == "scheduler":
            kube.delete(lease(NAMESPACE))  # otherwise the next leader would wait until it has expired
        wait_until("the agents have ended", lambda: _listed(kube.list("v1", "Pod", NAMESPACE, _AGENTS)), self._ready_s)
        self._machines.run_on_nodes(cluster, "rm", "-f", _CHECKPOINT)
        kube.patch(agents, _placed({_STOPPED: None}))
        wait_rolled_out(kube, [agents, pooling], self._clock, within_s=self._ready_s, tell=_discard)

        def lacking() -> str:
            known = {node.name: node for node in read_status(kube, NAMESPACE, datetime.now(UTC)).nodes}
            silent = [name for name in nodes if name not in known or known[name].stale]
            return f"{', '.join(silent)} did not" if silent else ""

        wait_until("the agents have reported", lacking, self._fresh_s)

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
    carico.deploy(cluster, (scheduler.agents or DEFAULT_VARIANT).name)
    carico.forget(cluster, names)
    return carico.telemetry(cluster, names)


def _is_configured(kube: KubeObjects, choices: Choices) -> bool:
    """Whether the deployed agents still have this configuration; tests may have deployed another one since."""
    (wanted,) = (
        thing
        for thing in manifests(choices)
        if (thing["kind"], thing["metadata"]["name"]) == ("ConfigMap", "carico-agent")
    )
    found = kube.read(wanted)
    return found is not None and found.get("data") == wanted["data"]


def _placed(selector: Mapping[str, str | None]) -> dict[str, object]:
    return {"spec": {"template": {"spec": {"nodeSelector": dict(selector)}}}}


def _listed(pods: Sequence[KubeObject]) -> str:
    return ", ".join(pod["metadata"]["name"] for pod in pods)


def _discard(line: str) -> None:
    """Discard progress: the session shows its own."""
