"""Reads a real cluster's Node objects, the API's JSON."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.real.api import Json
from workloads.quantity import memory_bytes, millicpu

HOSTNAME = "kubernetes.io/hostname"
"""The label that affinities use to select nodes."""
_REPELLING = ("NoSchedule", "NoExecute")


def is_ready(node: Json) -> bool:
    """Whether a node's Ready condition is true."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def allocatable(node: Json) -> tuple[int, int, int]:
    """Return a node's allocatable resources: thousandths of a CPU, bytes, pods."""
    room = node["status"]["allocatable"]
    return millicpu(room["cpu"]), memory_bytes(room["memory"]), int(room["pods"])


def usable_nodes(nodes: Sequence[Json]) -> list[Json]:
    """Return the nodes that any pod may run on, sorted by name: ready, not cordoned, without taints that repel pods."""
    found = [
        node
        for node in nodes
        if is_ready(node)
        and not node["spec"].get("unschedulable")
        and not any(taint.get("effect") in _REPELLING for taint in node["spec"].get("taints") or ())
        and HOSTNAME in (node["metadata"].get("labels") or {})
    ]
    return sorted(found, key=lambda node: str(node["metadata"]["name"]))
