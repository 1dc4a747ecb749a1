"""Messages: readers check bytes and turn them into values, writers turn values into bytes.

For any bytes, a reader either returns a value that is safe for the mathematics, or raises `InvalidInput` and changes
nothing. A subspace from outside must be one that telemetry in [0, 1] can have: any other would spoil the view of every
node.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Collection
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, DiskReport, WorkloadReport
from carico.demand.workload import check_workload
from carico.errors import InvalidInput
from carico.model.aggregator import ReplicaView, impossible
from carico.model.subspace import Subspace
from carico.rpc import aggregation_pb2, capacity_pb2
from carico.rpc.identity import node_name
from carico.scheduling.report import MOST_PODS_NAMED, POD_UID, CapacityReport, ReportReply

MAX_MESSAGE_BYTES = 64 * 1024
"""Far more than the largest sound messages: a subspace of 64 resources (33 KiB), a report of 250 pods (20 KiB)."""
_MOST_WORKLOADS = 1_000
_LONGEST_VERSION = 64
_UID = re.compile(POD_UID)
_MOST_PODS = 1_000_000
_MOST_NODES = 1_000_000
_LATEST_UNIX_S = 1e11
"""The year 5138: a greater number is not a time in seconds."""
_ORTHONORMAL = 1e-6
"""How far products of the basis's columns may be from 0 and 1; rounding to single precision is within this."""

_M = TypeVar("_M", bound=Message)
_N = TypeVar("_N", int, float)


def read_exchange(data: bytes, resources: int) -> tuple[str, Subspace]:
    """Read an ``ExchangeRequest``.

    Raises
    ------
    InvalidInput
        If the bytes are not such a message, the name is not a node's, or the subspace is not a sound one of `resources`
        resources.
    """
    request = _parsed(aggregation_pb2.ExchangeRequest, data)
    return node_name(request.node), read_subspace(request.subspace, resources)


def write_exchange(node: str, subspace: Subspace) -> bytes:
    """Return the bytes of an ``ExchangeRequest``."""
    return aggregation_pb2.ExchangeRequest(node=node, subspace=_subspace_message(subspace)).SerializeToString()


def read_reply(data: bytes, resources: int) -> Subspace:
    """Read an ``ExchangeReply``; raises as `read_exchange` does."""
    return read_subspace(_parsed(aggregation_pb2.ExchangeReply, data).subspace, resources)


def write_reply(subspace: Subspace) -> bytes:
    """Return the bytes of an ``ExchangeReply``."""
    return aggregation_pb2.ExchangeReply(subspace=_subspace_message(subspace)).SerializeToString()


def read_view(data: bytes, resources: int) -> ReplicaView:
    """Read a ``View``; raises as `read_exchange` does."""
    view = _parsed(aggregation_pb2.View, data)
    replica = node_name(view.replica)
    if not view.nodes:
        return ReplicaView(replica, 0, None)
    if view.nodes > _MOST_NODES:
        raise InvalidInput(f"nodes must be at most {_MOST_NODES}, got {view.nodes}")
    return ReplicaView(replica, view.nodes, read_subspace(view.subspace, resources))


def write_view(view: ReplicaView) -> bytes:
    """Return the bytes of a ``View``."""
    if view.subspace is None:
        return aggregation_pb2.View(replica=view.replica).SerializeToString()
    message = _subspace_message(view.subspace)
    return aggregation_pb2.View(replica=view.replica, nodes=view.nodes, subspace=message).SerializeToString()


def read_report(data: bytes) -> tuple[CapacityReport, bool]:
    """Read a ``CapacityReport``; return the report, and whether it is silent, which means that no answer is wanted.

    Raises
    ------
    InvalidInput
        If the bytes are not such a message, or a name or a number makes no sense.
    """
    message = _parsed(capacity_pb2.CapacityReport, data)
    report = CapacityReport(
        node=node_name(message.node),
        pod_capacity=_within("pod_capacity", message.pod_capacity, _MOST_PODS),
        pods=_within("pods", message.pods, _MOST_PODS),
        at_unix_s=_within("at_unix_s", message.at_unix_s, _LATEST_UNIX_S),
        sequence=message.sequence,
        demand=_read_demand(message.node, message.demand) if message.HasField("demand") else None,
        version=_version(message.version),
        counted=_read_counted(message.counted) if message.HasField("counted") else None,
    )
    return report, message.silent


def write_report(report: CapacityReport, silent: bool = False) -> bytes:
    """Return the bytes of a ``CapacityReport``.

    Raises
    ------
    InvalidInput
        If a number or a name does not fit into the message, or the demand is another node's.
    """
    if report.demand is not None and report.demand.node != report.node:
        raise InvalidInput(f"{report.node} reports its own demand only, got that of {report.demand.node}")
    try:
        fields = vars(report) | {
            "demand": None if report.demand is None else _demand_message(report.demand),
            "counted": None if report.counted is None else capacity_pb2.CountedPods(uids=sorted(report.counted)),
        }
        return capacity_pb2.CapacityReport(**fields, silent=silent).SerializeToString()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{str(report)[:500]} cannot be sent: {error}") from error


def read_report_reply(data: bytes) -> ReportReply:
    """Read a ``ReportReply``; schedulers that know no variant `demand` send an empty one.

    Raises
    ------
    InvalidInput
        If the bytes are not such a message, or a name makes no sense.
    """
    message = _parsed(capacity_pb2.ReportReply, data)
    workloads = dict(message.workloads)
    _require_at_most(MOST_PODS_NAMED, "pods", len(workloads))
    _require_uids(workloads)
    for workload in workloads.values():
        check_workload(workload)
    return ReportReply(workloads, _version(message.version))


def write_report_reply(reply: ReportReply) -> bytes:
    """Return the bytes of a ``ReportReply``.

    Raises
    ------
    InvalidInput
        If a name does not fit into the message.
    """
    try:
        return capacity_pb2.ReportReply(workloads=reply.workloads, version=reply.version).SerializeToString()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{str(reply)[:500]} cannot be sent: {error}") from error


def read_subspace(message: aggregation_pb2.Subspace, resources: int) -> Subspace:
    """Return the subspace that a message holds.

    Raises
    ------
    InvalidInput
        If it is not of `resources` resources, the shapes do not fit, the basis is not orthonormal, or the singular
        values are not descending numbers from 0 on, of no more energy than telemetry can have.
    """
    numbers, values = list(message.basis), list(message.singular_values)
    rank = len(values)
    if message.resources != resources:
        raise InvalidInput(
            f"subspaces of {resources} resources are exchanged here, got one of {message.resources}: "
            f"agents and aggregators must observe the same ones"
        )
    if not 1 <= rank <= resources or len(numbers) != resources * rank:
        raise InvalidInput(
            f"a subspace of {resources} resources has 1 to {resources} singular values, and {resources} numbers in "
            f"its basis for each, got {rank} and {len(numbers)}"
        )
    # Every comparison with NaN is false.
    if not all(map(operator.ge, [math.inf, *values], [*values, 0.0])):
        raise InvalidInput(f"singular values must descend to 0 at the lowest, got {values}")
    if not (min(numbers) >= -1 - _ORTHONORMAL and max(numbers) <= 1 + _ORTHONORMAL):
        raise InvalidInput(f"the numbers of an orthonormal basis are in [-1, 1], got {numbers}")
    basis = np.array(numbers).reshape(resources, rank)
    error = basis.T @ basis
    error.flat[:: rank + 1] -= 1.0
    if not max(-error.min(), error.max()) <= _ORTHONORMAL:
        raise InvalidInput(f"the columns of the basis must be orthonormal, got {basis.tolist()}")
    subspace = Subspace(basis, np.array(values))
    why_not = impossible(subspace)
    if why_not:
        raise InvalidInput(why_not)
    return subspace


def _subspace_message(subspace: Subspace) -> aggregation_pb2.Subspace:
    if subspace.basis.ndim != 2:
        raise InvalidInput(f"one node's subspace is sent at a time, got a basis of shape {subspace.basis.shape}")
    return aggregation_pb2.Subspace(
        resources=subspace.basis.shape[0],
        basis=subspace.basis.ravel().tolist(),
        singular_values=subspace.singular_values.tolist(),
    )


def _read_counted(message: capacity_pb2.CountedPods) -> frozenset[str]:
    _require_at_most(MOST_PODS_NAMED, "counted pods", len(message.uids))
    counted = frozenset(message.uids)
    _require_counted_once(len(message.uids), counted)
    return counted


def _read_demand(node: str, message: capacity_pb2.Demand) -> DemandReport:
    _require_at_most(_MOST_WORKLOADS, "workloads", len(message.workloads) + len(message.unknown_workloads))
    _require_at_most(MOST_PODS_NAMED, "counted pods", len(message.counted))
    workloads = {
        each.name: WorkloadReport(
            each.pods,
            each.stops_per_s,
            Estimate(each.cores, each.cores_variance),
            Estimate(each.gib, each.gib_variance),
            Estimate(each.reads, each.reads_variance) if each.HasField("reads") else None,
            each.exposed,
            each.measured,
        )
        for each in message.workloads
    }
    names = [*(each.name for each in message.workloads), *message.unknown_workloads]
    for name in names:
        check_workload(name)
    if len(set(names)) < len(names):
        raise InvalidInput(f"a report names every workload once, got these: {', '.join(names)[:300]}")
    numbered = (None, *names)
    try:
        counted = {pod.uid: numbered[pod.workload] for pod in message.counted}
    except IndexError:
        largest = max(pod.workload for pod in message.counted)
        raise InvalidInput(
            f"a pod's workload is the number of one of the {len(names)} that the report names, or 0, got {largest}"
        ) from None
    _require_counted_once(len(message.counted), counted)
    return DemandReport(
        node,
        message.cores,
        message.gib,
        Estimate(message.demand_cores, message.demand_cores_variance),
        message.held_gib,
        message.baseline_gib,
        workloads,
        counted,
        DiskReport(message.disk.reads, message.disk.level) if message.HasField("disk") else None,
    )


def _demand_message(demand: DemandReport) -> capacity_pb2.Demand:
    names = list(dict.fromkeys([*demand.workloads, *(name for name in demand.counted.values() if name is not None)]))
    numbers: dict[str | None, int] = {name: number for number, name in enumerate([None, *names])}
    message = capacity_pb2.Demand(
        cores=demand.cores,
        gib=demand.gib,
        demand_cores=demand.demand_cores.mean,
        demand_cores_variance=demand.demand_cores.variance,
        held_gib=demand.held_gib,
        baseline_gib=demand.baseline_gib,
        unknown_workloads=names[len(demand.workloads) :],
    )
    if demand.disk is not None:
        message.disk.reads, message.disk.level = demand.disk.reads, demand.disk.level
    # Parts that are made in their place take less time than parts that are copied into it.
    for name, known in demand.workloads.items():
        workload = message.workloads.add()
        workload.name, workload.pods, workload.stops_per_s = name, known.pods, known.stops_per_s
        workload.cores, workload.cores_variance = known.cores
        workload.gib, workload.gib_variance = known.gib
        if known.reads is not None:
            workload.reads, workload.reads_variance = known.reads
        workload.exposed, workload.measured = known.exposed, known.measured
    for uid, of in demand.counted.items():
        pod = message.counted.add()
        pod.uid, pod.workload = uid, numbers[of]
    return message


def _require_at_most(most: int, things: str, number: int) -> None:
    if number > most:
        raise InvalidInput(f"a message names at most {most} {things}, got {number}")


def _require_counted_once(pods: int, uids: Collection[str]) -> None:
    if len(uids) < pods:
        raise InvalidInput(f"a report counts every pod once, got {pods} pods of {len(uids)} UIDs")
    _require_uids(uids)


def _require_uids(uids: Collection[str]) -> None:
    if not all(map(_UID.fullmatch, uids)):
        wrong = next(uid for uid in uids if not _UID.fullmatch(uid))
        raise InvalidInput(f"the UID of a pod is 1 to 128 letters, digits, '.', '_' and '-', got {wrong[:300]!r}")


def _version(version: str) -> str:
    if len(version) > _LONGEST_VERSION or not version.isprintable():
        raise InvalidInput(f"a version is at most {_LONGEST_VERSION} printable characters, got {version[:100]!r}")
    return version


def _within(name: str, value: _N, high: float) -> _N:
    """Return a number if it is in [0, `high`]; `arrays.finite` would take four fifths of the time to read a report."""
    if not 0 <= value <= high:  # NaN fails, too
        raise InvalidInput(f"{name} must be finite and in [0, {high:g}], got {value:g}")
    return value


def _parsed(kind: type[_M], data: bytes) -> _M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidInput(f"{len(data)} bytes cannot be read as {kind.__name__}: {error}") from error
