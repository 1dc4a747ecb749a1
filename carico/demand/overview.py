"""What people are told of nodes and workloads: `carico status`, `carico costs` and the pages behind them. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Container
from typing import NamedTuple

import numpy as np

from carico.demand.filling import level
from carico.demand.loads import Loads
from carico.demand.regression import Estimate
from carico.demand.settings import DemandVariant
from carico.demand.witnesses import is_own


class NodeLoad(NamedTuple):
    """The load of a node; None is unknown."""

    node: str
    reserved: int
    """Pods in flight to the node."""
    cores: float | None
    load_cores: float | None
    """The load, with the pods in flight and a margin for doubt, less the load of pods that are about to stop."""
    level_cores: float | None
    """The load up to which the node is filled."""
    gib: float | None
    load_gib: float | None
    pod_capacity: float | None
    """How many more pods the node takes, if it reports no demand."""
    age_s: float | None
    """Seconds since the node reported."""
    stale: bool
    """Whether the report is too old to be believed."""


class WorkloadCost(NamedTuple):
    """What a pod of a workload demands, according to all nodes together."""

    workload: str
    cores: float
    cores_doubt: float
    """Standard deviation."""
    gib: float
    gib_doubt: float
    pods: int
    """Running pods."""
    nodes: int
    """Nodes that run them."""
    idle_s: float
    """Seconds since one ran."""
    reads: float
    """Reads from its node's disks that a pod has under way; 0 if pods are not known to read."""
    reads_doubt: float


class Workloads(NamedTuple):
    """How many workloads are known."""

    running: int
    """Workloads of which a node counts a pod."""
    waiting: int
    """Workloads of which pods wait for a node, and none runs."""
    unknown: int
    """Of both, those whose cost in cores or GiB is not known: no node has observed their pods well yet."""
    remembered: int
    """Other workloads whose cost is remembered."""


def node_loads(
    loads: Loads, variant: DemandVariant, now: float, *, share: bool, stale_after_s: float
) -> list[NodeLoad]:
    """Return the load of every node that has reported; `share` says whether the higher level applies."""
    names = loads.nodes
    rows = loads.rows(names)
    columns = (
        loads.cores(rows),
        np.maximum(loads.cpu_load(rows), 0.0),
        level(variant, loads.cores(rows), 0.0, share=share, critical=loads.critical(rows)),
        loads.gib(rows),
        loads.memory_load(rows),
        loads.capacity(rows),
        loads.age_s(rows, now),
    )
    values = (column.tolist() for column in (*columns, loads.age_s(rows, now) > stale_after_s))
    coming = [len(loads.in_flight_to(name)) for name in names]
    found = zip(names, coming, *values, strict=True)
    # NaN, which differs from itself, stands for unknown.
    return [NodeLoad._make(None if value != value else value for value in row) for row in found]


def workload_costs(loads: Loads, now: float, shown: Container[str] | None = None) -> list[WorkloadCost]:
    """Return the costs of all workloads that any node knows, or that are remembered.

    Parameters
    ----------
    loads : Loads
    now : float
    shown : container of str, optional
        The workloads whose pods have lately shown what they cost; by default all have.
    """
    found = []
    for workload in sorted(loads.workloads()):
        if is_own(workload) and not loads.runs(workload):
            continue
        cores, gib, reads = _told(loads, workload, shown is None or workload in shown)
        running = [each.pods for each in loads.at_nodes(workload).values() if each.pods]
        found.append(
            WorkloadCost(
                workload,
                cores.mean,
                math.sqrt(cores.variance),
                gib.mean,
                math.sqrt(gib.variance),
                sum(running),
                len(running),
                loads.idle_s(workload, now),
                reads.mean,
                math.sqrt(reads.variance),
            )
        )
    return found


def count_workloads(loads: Loads, shown: Collection[str], waiting: Collection[str]) -> Workloads:
    """Return how many workloads are known.

    Parameters
    ----------
    loads : Loads
    shown, waiting : collection of str
        The workloads of pods that the API shows on nodes, and of pods that wait for one.
    """
    # Pods of the platform, which no node counts, are not waited for to become known.
    running = set(filter(loads.runs, shown))
    present = running.union(waiting)
    remembered = {name for memory in loads.remembered for name in memory.workloads}
    pools = loads.cpu, loads.memory
    unknown = sum(not all(pool.knows(workload) for pool in pools) for workload in present)
    return Workloads(len(running), len(present) - len(running), unknown, len(remembered - present))


def _told(loads: Loads, workload: str, shown: bool) -> tuple[Estimate, Estimate, Estimate]:
    """What people are told of a workload: what its pods demand, or when they last showed it.

    What nodes say of pods that go on as they are is more and more what is assumed, unless they are measured.
    """
    pools = loads.cpu, loads.memory, loads.reads
    running, measured = loads.runs(workload), loads.measured(workload)
    told = []
    for pool, memory, seen in zip(pools, loads.remembered, (shown or measured, shown or measured, shown), strict=True):
        if running and seen:
            told.append(pool.cost(workload))
        elif workload in memory:
            told.append(memory.known(workload))
        else:
            told.append(pool.first if running else pool.cost(workload))
    cores, gib, reads = told
    return cores, gib, reads
