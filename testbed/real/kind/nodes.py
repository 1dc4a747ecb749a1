"""The size of kind's nodes: a quota of the machine's CPUs and a limit of memory, and a kubelet that claims no more.

Half a CPU is 50 ms of every 100 ms, whatever the number of threads; the kernel counts throttled time as pressure. The
kubelet is told the same size, so that kube-scheduler sees the truth.
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
    """Give workers their sizes, and take the others out of use; return when all is so and they are ready.

    Parameters
    ----------
    docker : Docker
    api : ClusterApi
    workers : list of str
    wanted : mapping of str to NodePool
        The size of the workers that are to be used.

    Raises
    ------
    WaitTimedOut
        If they are not ready in time.
    DockerFailed, KubeError
        If Docker or the API server does not do what it is asked.
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
            if allocatable(now[worker]) != _wants(wanted[worker])
        ]
        return ", ".join(unready + others)

    wait_until(f"{len(wanted)} nodes have their size and are ready", lacking, READY_TIMEOUT_S)


def _size(docker: Docker, worker: str, pool: NodePool, node: Json) -> None:
    limits = (f"--cpus={pool.cores:g}", f"--memory={pool.memory_bytes}", f"--memory-swap={pool.memory_bytes}")
    docker.call("update", *limits, worker)
    if allocatable(node) == _wants(pool):
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


def _wants(pool: NodePool) -> tuple[int, int, int]:
    return round(1000 * pool.cores), pool.memory_bytes, pool.max_pods
