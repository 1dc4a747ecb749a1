"""Nodes and pods on the user's own cluster: a scenario uses as many of the nodes as it needs, unchanged.

Nothing is resized, cordoned or deployed. CARICO can be tested only if the user has deployed it; then its agents report
their nodes' telemetry, and keep what they have learned in earlier repetitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import yaml

from carico.clock import Clock, SystemClock
from carico.config import PlainLoader
from carico.deployment.manifests import NAMESPACE
from carico.deployment.status import read_status
from carico.errors import KubeError, KubeRefused
from carico.model.variants import DEFAULT_VARIANT
from testbed.errors import ClusterError, InvalidSetting, UsageError
from testbed.real.agent_telemetry import AgentTelemetry
from testbed.real.api import ClusterApi, Json
from testbed.real.external.cluster import ExternalCluster
from testbed.real.jobs import on_nodes
from testbed.real.lifecycle import Cluster
from testbed.real.nodes import HOSTNAME, allocatable, usable_nodes
from testbed.real.platform import Prepared
from testbed.real.program_pods import check_programs, program_pod
from testbed.schedulers.spec import SchedulerSpec
from workloads.commands import needs_scikit_learn
from workloads.scenario import ClusterShape, JobSpec, NodePool, Scenario

_AGENTS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "carico-agent", "namespace": NAMESPACE}}


class ExternalPlatform:
    """A `Platform` on the user's own cluster.

    Parameters
    ----------
    cluster : ExternalCluster
    image : str or None
        The image with the workloads' programs; the cluster must be able to pull it.
    clock : Clock, optional
    """

    def __init__(self, cluster: ExternalCluster, image: str | None, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._image = image
        self._clock = SystemClock() if clock is None else clock

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> ExternalSetup:
        """Check that there are enough nodes, an image, and CARICO if it is under test; see `Platform.check`.

        Raises
        ------
        ClusterError
            If the cluster does not answer.
        """
        if settings:
            raise InvalidSetting(f"the provider external has no settings, got {', '.join(settings)}")
        check_programs(scenario)
        for job in scenario.jobs:
            if job.platform:
                raise UsageError(
                    f"job {job.name}: the deployment of the agents decides which pods count: leave out `platform`"
                )
        if self._image is None:
            raise UsageError(_how_to_push(scenario))
        try:
            nodes = usable_nodes(self._cluster.api.nodes())
            names = scenario.cluster.node_names
            if len(names) > len(nodes):
                raise UsageError(
                    f"{scenario.name} wants {len(names)} nodes, cluster {self._cluster.name} has {len(nodes)} that are "
                    f"ready and open to any pod: ask for fewer (--nodes, cluster: nodes)"
                )
            used = nodes[: len(names)]
            sizes = [allocatable(node) for node in used]
            pools = [
                NodePool(name, 1, cpu / 1000, str(memory), max_pods=pods)
                for name, (cpu, memory, pods) in zip(names, sizes, strict=True)
            ]
            scheduler.check_fits(msgspec.structs.replace(scenario, cluster=ClusterShape(pools=pools)))
            if scheduler.agents is not None:
                self._check_carico(scheduler, scheduler.agents.name, used)
        except KubeError as error:
            raise self._cluster.unusable(error) from error
        by_name = {
            name: FoundNode(node["metadata"]["name"], *size)
            for name, node, size in zip(names, used, sizes, strict=True)
        }
        return ExternalSetup(self, by_name, self._image)

    def prepare(self, cluster: Cluster, setup: ExternalSetup) -> Prepared:
        """Find the nodes that `check` has chosen; see `Setup.prepare`."""
        names = {found.node: name for name, found in setup.nodes.items()}
        used = [node for node in usable_nodes(cluster.api.nodes()) if node["metadata"]["name"] in names]
        if gone := sorted(set(names) - {node["metadata"]["name"] for node in used}):
            raise ClusterError(f"cluster {cluster.name}: {', '.join(gone)} can take no pods any more")
        hosts = [node["metadata"]["labels"][HOSTNAME] for node in used]
        return Prepared(
            names,
            partial(_template, setup.workload_image, hosts),
            programs=True,
            telemetry=AgentTelemetry(cluster.api.objects, NAMESPACE, names, self._clock)
            if _has_agents(cluster.api)
            else None,
        )

    def close(self) -> None:
        """Do nothing: nothing was started. See `Platform.close`."""

    def _check_carico(self, scheduler: SchedulerSpec, variant: str, used: Sequence[Json]) -> None:
        status = read_status(self._cluster.api.objects, NAMESPACE, datetime.now(UTC))
        silent = {node.name for node in status.nodes if node.stale} & {node["metadata"]["name"] for node in used}
        if silent or not status.leader:
            problems = status.problems or ["it only observes, which `carico deploy` without --observe changes"]
            raise UsageError(
                f"{scheduler.text}: CARICO does not work on cluster {self._cluster.name}, and the testbed does not "
                f"deploy it there: {'; '.join(problems)}; see `carico deploy` and `carico status`"
            )
        deployed = _deployed_variant(self._cluster.api)
        if variant != deployed:
            raise UsageError(
                f"{scheduler.text}: the agents on cluster {self._cluster.name} run the variant {deployed}: ask for "
                f"carico:variant={deployed}, or deploy the variant {variant}"
            )


@dataclass(frozen=True)
class FoundNode:
    """A node of the cluster as it is."""

    node: str
    """Its name on the cluster."""
    millicpu: int
    """Allocatable CPU, thousandths of a core."""
    memory_bytes: int
    """Allocatable memory."""
    pods: int
    """Allocatable pods."""


@dataclass(frozen=True)
class ExternalSetup:
    """A `Setup` of nodes of the user's own cluster."""

    platform: ExternalPlatform
    nodes: Mapping[str, FoundNode]
    """The nodes by the scenario's names."""
    workload_image: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Setup`."""
        return {
            "workload_image": self.workload_image,
            # Nodes have their own sizes, not those of the scenario.
            **dict.fromkeys(("cores", "memory", "max_pods", "pools")),
            "allocatable": {name: asdict(found) for name, found in self.nodes.items()},
        }

    def prepare(self, cluster: Cluster) -> Prepared:
        """See `ExternalPlatform.prepare`."""
        return self.platform.prepare(cluster, self)


def _template(image: str, hosts: Sequence[str], job: JobSpec, work: Sequence[float]) -> dict[str, Any]:
    """Return a pod that runs the job's program on one of the nodes; see `Template`."""
    there = {"key": HOSTNAME, "operator": "In", "values": list(hosts)}
    spec = program_pod(job, image, pull="IfNotPresent")
    return {"spec": {**spec, "affinity": on_nodes([{"matchExpressions": [there]}])}}


def _deployed_variant(api: ClusterApi) -> str:
    agents = api.objects.read(_AGENTS) or {}
    text = (agents.get("data") or {}).get("agent.yaml", "")
    configuration = yaml.load(text, Loader=PlainLoader) or {}  # noqa: S506 (it is a SafeLoader)
    return str(configuration.get("variant", DEFAULT_VARIANT.name))


def _has_agents(api: ClusterApi) -> bool:
    """Whether CARICO's agents are deployed and this client may see their configuration."""
    try:
        return api.objects.read(_AGENTS) is not None
    except KubeRefused:
        return False


def _how_to_push(scenario: Scenario) -> str:
    name = "workloads-sklearn" if any(needs_scikit_learn(job.workload) for job in scenario.jobs) else "workloads"
    return (
        f"pods on your own cluster need an image that it can pull: build one (carico-testbed images build {name} "
        f"prints its NAME), tag it for your registry (docker tag NAME REGISTRY/{name}:1), push it (docker push "
        f"REGISTRY/{name}:1) and pass it: --workload-image REGISTRY/{name}:1 (pytest: --carico-workload-image)"
    )
