"""CARICO on a kind cluster: deployed as users deploy it, and reset between repetitions.

Agents run under every scheduler, because they provide the nodes' telemetry. Servers and schedulers run on the control
plane, because the workers' CPUs are for the pods that are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from carico.clock import Clock
from carico.deployment.deploy import Deployment
from carico.deployment.manifests import COMPONENT, KUBE_SCHEDULER, NAMESPACE, SELECTOR, Choices, lease, manifests
from carico.deployment.rollout import wait_rolled_out
from carico.deployment.status import read_status
from carico.kube.objects import KubeObject, KubeObjects
from testbed.real.agent_telemetry import AgentTelemetry
from testbed.real.kind.maker import KindMaker
from testbed.real.lifecycle import Cluster
from testbed.real.namespaces import TESTBED_NAMESPACE
from testbed.real.waiting import wait_until

READY_S = 180.0
FRESH_S = 60.0
_AGENTS = f"{SELECTOR},{COMPONENT}=agent"
_STOPPED = "carico.dev/stopped"
"""A node selector that no node matches; it stops the agents."""
_CHECKPOINT = "/var/lib/carico/state.json"


class DeployedCarico:
    """CARICO on a session's cluster.

    Parameters
    ----------
    maker : KindMaker
    clock : Clock
    """

    def __init__(self, maker: KindMaker, clock: Clock) -> None:
        self._maker = maker
        self._clock = clock
        self._choices: Choices | None = None

    def deploy(self, cluster: Cluster, variant: str) -> None:
        """Deploy CARICO, or bring it up to date.

        Raises
        ------
        CaricoError, TestbedError
            If that fails or takes too long.
        """
        image = self._maker.image("carico").ensure(self._maker.docker, lambda text: None)
        choices = Choices(
            image=image,
            # CARICO is compared with this version, and nodes that can pull nothing have its image.
            kube_scheduler_image=f"{KUBE_SCHEDULER}:{cluster.api.version().partition('+')[0]}",
            telemetry="cgroup",
            variant=variant,
            until_counted=False,  # as the thesis's variants are simulated
            excluded_namespaces=(TESTBED_NAMESPACE,),
            on_control_plane=True,
        )
        kube = cluster.api.objects
        if choices == self._choices and _is_configured(kube, choices):
            return
        self._maker.load(cluster.name, image)
        Deployment(kube, self._clock, _discard).deploy(choices, datetime.now(UTC), force=True, wait_s=READY_S)
        self._choices = choices

    def remove(self, cluster: Cluster) -> None:
        """Undeploy CARICO, and wait until it is gone."""
        Deployment(cluster.api.objects, self._clock, _discard).undeploy(NAMESPACE, READY_S)
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
        wait_until("the agents have ended", lambda: _listed(kube.list("v1", "Pod", NAMESPACE, _AGENTS)), READY_S)
        for node in self._maker.nodes(cluster.name):
            self._maker.docker.call("exec", node, "rm", "-f", _CHECKPOINT)
        kube.patch(agents, _placed({_STOPPED: None}))
        wait_rolled_out(kube, [agents, pooling], self._clock, within_s=READY_S, tell=_discard)

        def lacking() -> str:
            known = {node.name: node for node in read_status(kube, NAMESPACE, datetime.now(UTC)).nodes}
            silent = [name for name in nodes if name not in known or known[name].stale]
            return f"{', '.join(silent)} did not" if silent else ""

        wait_until("the agents have reported", lacking, FRESH_S)

    def telemetry(self, cluster: Cluster, nodes: Mapping[str, str]) -> AgentTelemetry:
        """Return the telemetry of these nodes' agents."""
        return AgentTelemetry(cluster.api.objects, NAMESPACE, nodes, self._clock)


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
