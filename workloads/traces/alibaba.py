"""Pods and nodes of Alibaba's GPU cluster trace of 2023: `openb_pod_list_*.csv` and `openb_node_list_*.csv`.

Source: https://github.com/alibaba/clusterdata (cluster-trace-gpu-v2023), where it is offered for research and study;
Weng et al., *Beware of Fragmentation*, USENIX ATC 2023. The trace says what pods requested and how long they ran, not
what they used. Times are whole seconds since its beginning.

What is not obvious about its rows:

- `pod_phase` is the phase in which the pod was last seen. Most pods are `Running` although they were deleted long
  before the end: they ended by their deletion.
- A `Pending` pod never ran; it has no `scheduled_time`, but a `deletion_time`.
- The trace ends at 12,902,960 s. All pods that were still running have this `deletion_time`: when they really ended is
  not known.
- Some variants of the files lack necessary columns and are refused: `openb_pod_list_nomem*.csv` has no memory,
  `openb_pod_list_multigpu*.csv` no times. `openb_pod_list_default.csv` has all columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from workloads.errors import InvalidTrace
from workloads.traces.table import Name, read_rows

TRACE_END_S = 12_902_960.0
"""The trace's last second."""

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
Millicpu = Annotated[int, Meta(ge=0, le=1_024_000)]
MemoryMib = Annotated[int, Meta(ge=0, le=2**30)]
Gpus = Annotated[int, Meta(ge=0, le=1000)]
Seconds = Annotated[float, Meta(ge=0, le=1e10)]


@dataclass(frozen=True)
class TracePod:
    """A pod of the trace."""

    name: str
    created_s: float
    """Seconds since the beginning of the trace."""
    scheduled_s: float | None
    """None if the pod was never scheduled."""
    lifetime_s: float | None
    """Seconds from scheduling to deletion; None if the pod never ran, or still ran when the trace ended."""
    millicpu: int
    """Requested."""
    memory_mib: int
    """Requested."""
    gpus: int
    """Requested: whole GPUs, or a part of one."""
    qos: str
    phase: Phase
    """The phase when the pod was last seen."""


@dataclass(frozen=True)
class TraceNode:
    """A node of the trace."""

    name: str
    millicpu: int
    memory_mib: int
    gpus: int


class _PodRow(msgspec.Struct, frozen=True):
    name: Name
    cpu_milli: Millicpu
    memory_mib: MemoryMib
    num_gpu: Gpus
    qos: Name
    pod_phase: Phase
    creation_time: Seconds
    deletion_time: Seconds | None = None
    scheduled_time: Seconds | None = None


class _NodeRow(msgspec.Struct, frozen=True):
    sn: Name
    cpu_milli: Annotated[int, Meta(ge=1000, le=1_024_000)]
    memory_mib: Annotated[int, Meta(ge=1, le=2**30)]
    gpu: Gpus


def read_pods(path: Path) -> list[TracePod]:
    """Return the pods of a pod list, by the time of their creation.

    Pods that were never scheduled, or still ran at the end, are included without a lifetime.

    Raises
    ------
    InvalidTrace
        If the file is not such a list: the message has the line, the value seen and the value wanted.
    """
    pods = [_pod(row, where) for where, row in read_rows(path, _PodRow, key=["name"])]
    return sorted(pods, key=lambda pod: pod.created_s)


def read_nodes(path: Path) -> list[TraceNode]:
    """Return the nodes of a node list, in its order.

    Raises
    ------
    InvalidTrace
        As in `read_pods`.
    """
    rows = read_rows(path, _NodeRow, key=["sn"])
    return [TraceNode(row.sn, row.cpu_milli, row.memory_mib, row.gpu) for _, row in rows]


def _pod(row: _PodRow, where: str) -> TracePod:
    created, scheduled, deleted = row.creation_time, row.scheduled_time, row.deletion_time
    if scheduled is not None and scheduled < created:
        raise InvalidTrace(f"{where}: scheduled_time is {scheduled:.0f}, which is before creation_time {created:.0f}")
    began = created if scheduled is None else scheduled
    if deleted is not None and deleted < began:
        before = "creation_time" if scheduled is None else "scheduled_time"
        raise InvalidTrace(f"{where}: deletion_time is {deleted:.0f}, which is before {before} {began:.0f}")
    ran = scheduled is not None and row.pod_phase != "Pending"
    cut_off = row.pod_phase == "Running" and deleted is not None and deleted >= TRACE_END_S
    return TracePod(
        name=row.name,
        created_s=created,
        scheduled_s=scheduled,
        lifetime_s=deleted - began if ran and deleted is not None and not cut_off else None,
        millicpu=row.cpu_milli,
        memory_mib=row.memory_mib,
        gpus=row.num_gpu,
        qos=row.qos,
        phase=row.pod_phase,
    )
