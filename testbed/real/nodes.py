"""What nodes of a real cluster say of themselves, as the API's JSON has it."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.real.api import Json
from workloads.quantity import memory_bytes, millicpu

HOSTNAME = "kubernetes.io/hostname"
"""Label by which pods ask for nodes."""
_KEEPS_PODS_OFF = ("NoSchedule", "NoExecute")


def is_ready(node: Json) -> bool:
    """Whether its kubelet says so."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def allocatable(node: Json) -> tuple[int, int, int]:
    """Return what a node can give to pods: thousandths of a CPU, bytes, pods."""
    room = node["status"]["allocatable"]
    return millicpu(room["cpu"]), memory_bytes(room["memory"]), int(room["pods"])


def usable_nodes(nodes: Sequence[Json]) -> list[Json]:
    """Return the nodes that any pod may run on, by name: ready, not cordoned, without taints that keep pods off."""
    found = [
        node
        for node in nodes
        if is_ready(node)
        and not node["spec"].get("unschedulable")
        and not any(taint.get("effect") in _KEEPS_PODS_OFF for taint in node["spec"].get("taints") or ())
        and HOSTNAME in (node["metadata"].get("labels") or {})
    ]
    return sorted(found, key=lambda node: str(node["metadata"]["name"]))
