"""kind's nodes and pods: nodes get the CPUs and the memory that a scenario wants, pods run the workloads' programs.

A node's CPUs are a quota of the machine's: half a CPU is 50 ms of every 100 ms, whatever the number of its threads. The
kernel counts throttled time as pressure. The kubelet is told the same size, so that kube-scheduler sees the truth.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from testbed.clusters.api import Json
from testbed.clusters.kind import KindMaker
from testbed.clusters.lifecycle import Cluster
from testbed.clusters.waiting import wait_until
from testbed.errors import ClusterError, TestbedError, UsageError
from testbed.images.python_image import PUBLISHED_BASE
from workloads.commands import command_of, needs_scikit_learn
from workloads.quantity import memory_bytes, millicpu
from workloads.scenario import JobSpec, NodePool, Scenario

OWN_CPUS = 0.5
"""Left of the machine for the control plane and for who measures."""
READY_TIMEOUT_S = 60.0
_KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"


class Containers:
    """A `Platform`.

    Parameters
    ----------
    maker : KindMaker
    cpus : float, optional
        Of the machine; by default those that this process may use.
    """

    def __init__(self, maker: KindMaker, cpus: float | None = None) -> None:
        self._maker = maker
        self._cpus = len(os.sched_getaffinity(0)) if cpus is None else cpus
        self._loaded: set[str] = set()

    def check(self, scenario: Scenario) -> None:
        """Check that the machine is large enough and that all jobs are programs; see `Platform.check`."""
        pools = scenario.cluster.each_node
        if len(pools) > self._maker.workers:
            raise UsageError(
                f"{scenario.name} wants {len(pools)} nodes, the kind cluster has {self._maker.workers} workers: "
                f"ask for fewer nodes, or for more workers (--carico-workers)"
            )
        wanted = sum(pool.cores for pool in pools)
        if wanted > self._cpus - OWN_CPUS:
            raise UsageError(
                f"{scenario.name} wants {wanted:g} CPUs for its nodes, this machine has {self._cpus:g}, of which "
                f"{OWN_CPUS:g} are the control plane's: describe smaller nodes (cluster: cores), or fewer"
            )
        for job in scenario.jobs:
            command_of(job.workload, job.parameters)
            if job.work:
                raise UsageError(f"job {job.name}: pods of a real Job run the same program, leave out their `work`")
            if job.platform:
                raise UsageError(f"job {job.name}: pods of the platform are real ones here, leave out `platform`")

    def prepare(self, cluster: Cluster, scenario: Scenario) -> Mapping[str, str]:
        """Give nodes their sizes, and images; see `Platform.prepare`."""
        for image in sorted({self._image(job) for job in scenario.jobs}):
            self._load(cluster, image)
        workers = [name for name in self._maker.nodes(cluster.name) if not name.endswith("control-plane")]
        shape = scenario.cluster
        used = dict(zip(workers, zip(shape.node_names, shape.each_node, strict=True), strict=False))
        there = {node["metadata"]["name"]: node for node in cluster.api.nodes()}
        for worker in workers:
            if worker in used:
                self._resize(worker, used[worker][1], there[worker])
            cluster.api.cordon(worker, worker not in used)

        def lacking() -> str:
            now = {node["metadata"]["name"]: node for node in cluster.api.nodes()}
            wrong = [worker for worker in used if _size(now[worker]) != _wanted(used[worker][1])]
            unready = [worker for worker in used if not _is_ready(now[worker])]
            told = [f"{worker} has another size: {_size(now[worker])}" for worker in wrong]
            return ", ".join(told + [f"{worker} is not ready" for worker in unready])

        wait_until(f"{len(used)} nodes have their size and are ready", lacking, READY_TIMEOUT_S)
        return {worker: name for worker, (name, _) in used.items()}

    def template(self, job: JobSpec, work: Sequence[float], scenario: Scenario) -> dict[str, Any]:
        """Return a pod that runs the job's program; see `Platform.template`."""
        container = {
            "name": job.workload,
            "image": self._image(job),
            "imagePullPolicy": "Never",
            "command": command_of(job.workload, job.parameters),
        }
        return {"spec": {"containers": [container], "automountServiceAccountToken": False}}

    def _image(self, job: JobSpec) -> str:
        name = "workloads-sklearn" if needs_scikit_learn(job.workload) else "workloads"
        if self._maker.has_own_image:
            return self._maker.catalogue.image(name).tag
        return self._maker.catalogue.program_image(name, PUBLISHED_BASE).tag

    def _load(self, cluster: Cluster, tag: str) -> None:
        if tag in self._loaded:
            return
        name = tag.rpartition("/")[2].partition(":")[0]
        catalogue = self._maker.catalogue
        image = catalogue.image(name) if self._maker.has_own_image else catalogue.program_image(name, PUBLISHED_BASE)
        try:
            image.ensure(catalogue.docker, lambda text: None)
        except TestbedError as error:
            raise ClusterError(f"the image {tag} cannot be made: {error}") from error
        self._maker.load(cluster.name, tag)
        self._loaded.add(tag)

    def _resize(self, worker: str, pool: NodePool, node: Json) -> None:
        """Set the quota of a container, and let its kubelet claim no more."""
        docker = self._maker.docker
        docker.call(
            "update",
            f"--cpus={pool.cores:g}",
            f"--memory={pool.memory_bytes}",
            f"--memory-swap={pool.memory_bytes}",
            worker,
        )
        if _size(node) == _wanted(pool):
            return
        capacity = node["status"]["capacity"]
        config = yaml.safe_load(docker.call("exec", worker, "cat", _KUBELET_CONFIG))
        reserved = {
            "cpu": f"{millicpu(capacity['cpu']) - round(1000 * pool.cores)}m",
            "memory": str(memory_bytes(capacity["memory"]) - pool.memory_bytes),
        }
        config |= {"systemReserved": reserved, "maxPods": pool.max_pods}
        docker.call("exec", "--interactive", worker, "tee", _KUBELET_CONFIG, given=yaml.safe_dump(config).encode())
        docker.call("exec", worker, "systemctl", "restart", "kubelet")


def _wanted(pool: NodePool) -> tuple[int, int, int]:
    return round(1000 * pool.cores), pool.memory_bytes, pool.max_pods


def _size(node: Json) -> tuple[int, int, int]:
    """Return what a node can give to pods: thousandths of a CPU, bytes, pods."""
    allocatable = node["status"]["allocatable"]
    return millicpu(allocatable["cpu"]), memory_bytes(allocatable["memory"]), int(allocatable["pods"])


def _is_ready(node: Json) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions") or ())
