"""The size of kind's nodes: a CPU quota and a memory limit for the container, and the same size for its kubelet.

Half a CPU is 50 ms of every 100 ms, whatever the number of threads; the kernel counts throttled time as pressure. The
kubelet reports the same size, so that kube-scheduler sees the node's true resources.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from testbed.images.docker import Docker
from testbed.real.api import ClusterApi, Json
from testbed.real.nodes import allocatable, is_ready
from testbed.real.waiting import wait_until
from workloads.quantity import memory_bytes, millicpu
from workloads.scenario import NodePool

READY_TIMEOUT_S = 180.0
_KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"


def size_nodes(docker: Docker, api: ClusterApi, workers: list[str], wanted: Mapping[str, NodePool]) -> None:
    """Resize the workers in `wanted`, cordon the others, and wait until the resized workers are ready.

    Parameters
    ----------
    docker : Docker
    api : ClusterApi
    workers : list of str
    wanted : mapping of str to NodePool
        The sizes of the workers to use, by name.

    Raises
    ------
    WaitTimedOut
        If the workers are not ready in time.
    DockerFailed, KubeError
        If a call of Docker or of the API server fails.
    """
    there = {node["metadata"]["name"]: node for node in api.nodes()}
    for worker in workers:
        if worker in wanted:
            _size(docker, worker, wanted[worker], there[worker])
        api.cordon(worker, worker not in wanted)

    def lacking() -> str:
        now = {node["metadata"]["name"]: node for node in api.nodes()}
        unready = [f"{worker} is not ready" for worker in wanted if not is_ready(now[worker])]
        others = [
            f"{worker} is {allocatable(now[worker])}"
            for worker in wanted
            if allocatable(now[worker]) != _resources(wanted[worker])
        ]
        return ", ".join(unready + others)

    wait_until(f"{len(wanted)} nodes have their size and are ready", lacking, READY_TIMEOUT_S)


def _size(docker: Docker, worker: str, pool: NodePool, node: Json) -> None:
    limits = (f"--cpus={pool.cores:g}", f"--memory={pool.memory_bytes}", f"--memory-swap={pool.memory_bytes}")
    docker.call("update", *limits, worker)
    if allocatable(node) == _resources(pool):
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


def _resources(pool: NodePool) -> tuple[int, int, int]:
    return round(1000 * pool.cores), pool.memory_bytes, pool.max_pods
