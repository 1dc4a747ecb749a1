"""CARICO on a kind cluster: deployed as users deploy it, and forgetful between repetitions.

Agents run whichever scheduler is under test: they tell what nodes do. Servers and schedulers run on the control plane,
for the workers' CPUs are for the pods that are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from carico.clock import Clock
from carico.deployment.deploy import Deployment
from carico.deployment.manifests import NAMESPACE, SELECTOR, Choices, manifests
from carico.deployment.rollout import wait_rolled_out
from carico.deployment.status import read_status
from testbed.clusters.agent_telemetry import AgentTelemetry
from testbed.clusters.kind import KindMaker
from testbed.clusters.lifecycle import Cluster
from testbed.clusters.waiting import wait_until
from testbed.images.python_image import PUBLISHED_BASE

READY_S = 180.0
FRESH_S = 60.0
_CHECKPOINT = "/var/lib/carico/state.json"


class DeployedCarico:
    """CARICO on the cluster of a session.

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
        """Deploy it, or bring it up to date.

        Raises
        ------
        CaricoError, TestbedError
            If that fails, or takes too long.
        """
        base = None if self._maker.has_own_image else PUBLISHED_BASE
        image = self._maker.catalogue.image("carico", base).ensure(self._maker.docker, lambda text: None)
        choices = Choices(image=image, telemetry="cgroup", variant=variant, on_control_plane=True)
        if choices == self._choices:
            return
        self._maker.load(cluster.name, image)
        kube = cluster.api.objects
        Deployment(kube, self._clock, _tell_nobody).deploy(choices, datetime.now(UTC), force=True, wait_s=READY_S)
        self._choices = choices

    def forget(self, cluster: Cluster, nodes: Mapping[str, str]) -> None:
        """Let agents and servers begin anew, as on a new cluster, and return when they have reported."""
        assert self._choices is not None
        kube = cluster.api.objects
        for node in self._maker.nodes(cluster.name):
            self._maker.docker.call("exec", node, "rm", "-f", _CHECKPOINT)
        things = [
            thing
            for thing in manifests(self._choices)
            if thing["metadata"]["name"] in ("carico-agent", "carico-aggregator") and "template" in thing.get("spec", {})
        ]
        kube.delete_all("v1", "Pod", NAMESPACE, f"{SELECTOR},app.kubernetes.io/component in (agent, aggregator)")
        wait_rolled_out(kube, things, self._clock, READY_S, _tell_nobody)

        def lacking() -> str:
            known = {node.name: node for node in read_status(kube, NAMESPACE, datetime.now(UTC)).nodes}
            silent = [name for name in nodes if name not in known or known[name].stale]
            return f"{', '.join(silent)} did not" if silent else ""

        wait_until("the agents have reported", lacking, FRESH_S)

    def telemetry(self, cluster: Cluster, nodes: Mapping[str, str]) -> AgentTelemetry:
        """Return what asks the agents of these nodes."""
        return AgentTelemetry(cluster.api.objects, NAMESPACE, nodes, self._clock)


def _tell_nobody(line: str) -> None:
    """Progress is shown by who runs repetitions."""
