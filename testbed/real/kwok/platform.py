"""Nodes and pods on KWOK: Node objects without machines, and pods that do no work and end after a given time.

A pod lasts as long as its work would take if the pod were alone on its node. So completion times are not measured here,
but scheduling is: where pods go, how long that takes, and how many pods are scheduled per second. Every node reports to
CARICO that it has room for as many pods as it has cores, or, to the variant `demand`, what its pods would demand. So
what CARICO would learn is not measured either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carico.demand.settings import DEMAND
from carico.model.variants import DEFAULT_VARIANT
from testbed.errors import InvalidSetting, UsageError
from testbed.real.api import ClusterApi, Json
from testbed.real.kwok.carico import LocalCarico
from testbed.real.kwok.synthetic_demand import CORES, GIB, NodeSize
from testbed.real.lifecycle import Cluster
from testbed.real.nodes import is_ready
from testbed.real.platform import CARICO, Prepared
from testbed.real.waiting import wait_until
from testbed.schedulers.spec import SchedulerSpec
from workloads.demand import Demand
from workloads.scenario import ClusterShape, JobSpec, NodePool, Scenario

DURATIONS = "carico.dev/durations"
"""Annotation of a pod, read by KWOK's stage: seconds by completion index, or one number for all."""
READY_TIMEOUT_S = 300.0
PODS_PER_CORE = 1
"""Pods for which a node has room, by its synthetic reports, for each of its cores."""
_GIB = 2.0**30
_MANAGED = {"kwok.x-k8s.io/node": "fake"}


class KwokPlatform:
    """A `Platform` on KWOK."""

    def __init__(self) -> None:
        self._carico: LocalCarico | None = None

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> KwokSetup:
        """Take any scenario, and no settings; see `Platform.check`."""
        scheduler.check_fits(scenario)
        if settings:
            raise InvalidSetting(f"the provider kwok has no settings, got {', '.join(settings)}")
        if scheduler.agents not in (None, DEFAULT_VARIANT, DEMAND):
            raise UsageError(
                f"{scheduler.text}: nodes of the provider kwok have no agents, their reports are synthetic and no "
                f"parameter changes them: write carico or carico:variant={DEMAND.name} alone, or use the provider "
                f"simulated, or kind for another named variant"
            )
        return KwokSetup(self, scenario.cluster, None if scheduler.agents is None else scheduler.agents.name)

    def prepare(self, cluster: Cluster, setup: KwokSetup) -> Prepared:
        """Replace nodes of a wrong size, and start CARICO if it is under test; see `Setup.prepare`."""
        self.close()
        shape = setup.shape
        shape_nodes(cluster.api, shape)
        names = {name: name for name in shape.node_names}
        if setup.variant is None:
            return Prepared(names, setup.template)
        pools = dict(zip(names, shape.each_node, strict=True))
        slots = {name: PODS_PER_CORE * pool.cores for name, pool in pools.items()}
        sizes = {name: NodeSize(pool.cores, pool.memory_bytes / _GIB) for name, pool in pools.items()}
        self._carico = LocalCarico(
            cluster.kubeconfig,
            cluster.folder / CARICO,
            slots,
            sizes=sizes if setup.variant == DEMAND.name else {},
            variant=setup.variant,
        )
        self._carico.open()
        return Prepared(names, setup.template)

    def close(self) -> None:
        """End CARICO; see `Platform.close`."""
        if self._carico is not None:
            self._carico.close()
            self._carico = None


@dataclass(frozen=True)
class KwokSetup:
    """A `Setup` on KWOK."""

    platform: KwokPlatform
    shape: ClusterShape
    variant: str | None
    """The name of CARICO's variant; None without CARICO."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Setup`."""
        if self.variant is None:
            return {}
        return {"reports": "synthetic"} | ({} if self.variant == DEMAND.name else {"pods_per_core": PODS_PER_CORE})

    def prepare(self, cluster: Cluster) -> Prepared:
        """See `KwokPlatform.prepare`."""
        return self.platform.prepare(cluster, self)

    def template(self, job: JobSpec, work: Sequence[float]) -> dict[str, Any]:
        """Return a pod that lasts as long as its work would take alone on a node; see `Template`."""
        cores = max(pool.cores for pool in self.shape.each_pool)
        seconds = [f"{alone_s(job.demand, one, cores):.3f}" for one in work]
        durations = seconds[0] if len(set(seconds)) == 1 else ",".join(seconds)
        demanded = {CORES: f"{alone_threads(job.demand, cores):.3f}", GIB: f"{job.demand.memory_bytes / _GIB:.4f}"}
        arguments = [f"{name}={value}" for name, value in job.parameters.items()]
        spec = fake_pod_spec({"name": job.workload, "args": arguments})
        return {"metadata": {"annotations": {DURATIONS: durations} | demanded}, "spec": spec}


def shape_nodes(api: ClusterApi, shape: ClusterShape) -> None:
    """Replace the nodes that differ from a shape, and wait until all are ready.

    Raises
    ------
    WaitTimedOut
        If they are not ready in time.
    KubeError
        If the API server does not answer or refuses.
    """
    wanted = {name: node_manifest(name, pool) for name, pool in zip(shape.node_names, shape.each_node, strict=True)}
    there = {node["metadata"]["name"]: node for node in api.nodes()}
    for name, node in there.items():
        if name not in wanted or _allocatable(node) != _allocatable(wanted[name]):
            api.delete_node(name)
    for name, manifest in wanted.items():
        if name not in there or _allocatable(there[name]) != _allocatable(manifest):
            api.create_node(manifest)

    def lacking() -> str:
        nodes = api.nodes()
        unready = [node["metadata"]["name"] for node in nodes if not is_ready(node)]
        tainted = [node["metadata"]["name"] for node in nodes if node["spec"].get("taints")]
        if not unready:
            # The controller manager removes the taints of new nodes, too, but only about ten a second.
            for name in tainted:
                api.remove_taints(name)
        left = unready or tainted
        return f"{len(left)} are not, for example {', '.join(left[:3])}" if left else ""

    wait_until(f"{len(wanted)} nodes are ready", lacking, READY_TIMEOUT_S)


def fake_pod_spec(container: Json | None = None) -> Json:
    """Return the spec of a pod that is only an API object; `container` may say what would run there."""
    main = {"name": "main", "image": "carico.dev/none"} | (container or {})
    # There is no process to end, and with a grace period a namespace's removal would wait for its pods.
    return {"containers": [main], "terminationGracePeriodSeconds": 0}


def alone_s(demand: Demand, work: float, cores: float) -> float:
    """Return how many seconds a pod takes that has a node for itself.

    Parameters
    ----------
    demand : Demand
    work : float
        CPU-seconds; may be infinite if the demand ends by itself.
    cores : float

    Examples
    --------
    >>> from workloads.demand import pi, stress
    >>> alone_s(pi(), 5.0, 4), alone_s(stress(60, cpu=2), float("inf"), 4)
    (5.0, 60.0)
    """
    if math.isinf(work):
        return float(demand.duration_s)
    took = sum(phase.share * work / min(phase.threads, cores) for phase in demand.phases)
    return min(took, demand.duration_s)


def alone_threads(demand: Demand, cores: float) -> float:
    """Return how many threads of a pod want a CPU, on average over its life alone on a node.

    Parameters
    ----------
    demand : Demand
    cores : float

    Examples
    --------
    >>> from workloads.demand import mlp, pi
    >>> alone_threads(pi(), 4), round(alone_threads(mlp(threads=4), 4), 2)
    (1.0, 3.4)
    """
    spans = [(phase.threads, phase.share / min(phase.threads, cores)) for phase in demand.phases]
    return sum(threads * span for threads, span in spans) / sum(span for _, span in spans)


def node_manifest(name: str, pool: NodePool) -> Json:
    """Return the Node object of a fake node."""
    room = {"cpu": str(pool.cores), "memory": str(pool.memory_bytes), "pods": str(pool.max_pods)}
    return {
        "metadata": {"name": name, "annotations": _MANAGED, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": room, "capacity": room},
    }


def _allocatable(node: Json) -> dict[str, str]:
    return dict((node.get("status") or {}).get("allocatable") or {})
