"""The load of every node: its report, the pods in flight to it, and the ended pods that it still counts. Pure.

A pod is in flight from the moment it is given a node until a report of that node counts it, so that no pod is counted
twice or not at all. Nodes are columns of arrays, because one decision looks at thousands of nodes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.demand.dependence import Dependence
from carico.demand.filling import lower_level
from carico.demand.known import Known
from carico.demand.memory import Memory
from carico.demand.pool import Pool
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.settings import DemandVariant
from carico.outliers import MOST, Said
from carico.scheduling.rows import NodeRows

FIRST_START_UP_S = 1.5
"""The assumed time from a decision to the report that counts the pod, until that time has been observed."""
START_UP_GAIN = 0.1
"""Weight of a new observation in a node's average start-up time."""
MOST_START_UP_S = 5.0
"""Longer start-ups count as this long: such pods wait for an image or a volume."""
_FAR = 2.0
"""Others correct a node's estimate by at most so many of its standard deviations: pods of a node may be other ones."""
_MOST_SETS = 100
"""The most sets of nodes whose columns are kept at hand."""


Workloads = Mapping[str, WorkloadReport]


Rows = IntArray | slice | int
"""Columns of nodes, whose values are arrays, or of one node, whose values are numbers: much faster than an array."""
ALL = slice(None)
"""All columns as they are, which takes no looking up; those that belong to no node are NaN, and so is the last one."""


class _Told(NamedTuple):
    """What is needed of a node's latest report to sum up its load, side by side: that is done after every placement."""

    names: Sequence[str]
    pods: Sequence[int]
    gib: Sequence[float]
    cores: Sequence[Estimate]
    exposed: Sequence[float]
    stops_per_s: Sequence[float]

    @classmethod
    def by(cls, workloads: Workloads) -> _Told:
        """Return what a report tells of workloads."""
        each = workloads.values()
        return cls(
            list(workloads),
            [one.pods for one in each],
            [one.gib.mean for one in each],
            [one.cores for one in each],
            [one.exposed for one in each],
            [one.stops_per_s for one in each],
        )


class InFlight(NamedTuple):
    """A pod that was given a node, and that no report of the node has counted yet."""

    node: str
    workload: str
    since: float


class Loads:
    """The loads of all nodes, in cores and GiB.

    Parameters
    ----------
    variant : DemandVariant
    """

    def __init__(self, variant: DemandVariant) -> None:
        self._variant = variant
        cpu = Estimate(variant.first_cores, variant.first_doubt_cores**2)
        memory = Estimate(variant.first_gib, variant.first_doubt_gib**2)
        constants = variant.returning, variant.learned_s, variant.remember_s
        reads = Estimate(0.0, variant.first_doubt_reads**2)
        self.remembered = Memory(cpu, *constants), Memory(memory, *constants), Memory(reads, *constants)
        """What workloads used to cost: cores, GiB, reads."""
        self.cpu = Pool(cpu, variant.finest_cores, self.remembered[0])
        self.memory = Pool(memory, variant.finest_gib, self.remembered[1])
        self.reads = Pool(reads, variant.finest_reads, self.remembered[2])
        self._rows = NodeRows()
        self._node_of: dict[int, str] = {}
        """The node of every column that has one."""
        self._free: list[int] = []
        self._reports: dict[str, DemandReport] = {}
        self._told: dict[str, _Told] = {}
        """The numbers in these reports."""
        self._in_flight: dict[str, InFlight] = {}
        self._in_flight_to: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """The UIDs of pods in flight, by node; a set would have another order in every process."""
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """The number of pods in flight, by workload and node."""
        self._over: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """The UIDs of pods that have ended although the node's latest report counts them, by node."""
        self._critical: dict[str, str] = {}
        """The node of every latency-critical pod that has one, by UID."""
        self._critical_at: defaultdict[str, set[str]] = defaultdict(set)
        """The UIDs of these pods, by node."""
        self._dependence = Dependence(self._counts)
        """Which nodes' loads depend on which pooled costs."""
        self._known = Known()
        """What these reports say of workloads."""
        self._all_rows: IntArray | None = None
        self._generation = 0
        """Increases whenever a node gets or loses its column."""
        self._among: dict[frozenset[str], IntArray] = {}
        """Cache for this generation: see `among`."""
        self._columns: FloatArray = np.full((self._HEIGHT, 1), np.nan)
        self._pods: IntArray = np.zeros(1, np.int64)
        self._has_critical: BoolArray = np.zeros(1, np.bool_)
        self._start_up_s: FloatArray = np.full(1, FIRST_START_UP_S)
        """How long pods are in flight to each node, on average: a large node starts many, one after the other."""

    # Rows of `_columns`; the last column belongs to no node and stays NaN: column -1 stands for unknown nodes.
    _CORES, _LOWER, _GIB, _LOAD, _MEMORY, _AT, _CREDIT, _CAPACITY, _READS = range(_HEIGHT := 9)

    def __len__(self) -> int:
        """Number of nodes that have reported."""
        return len(self._rows)

    @property
    def nodes(self) -> list[str]:
        """The nodes that have reported."""
        return list(self._rows)

    @property
    def _all_demanding(self) -> bool:
        """Whether the latest reports of all nodes contain their demand."""
        return len(self._reports) == len(self._rows)

    def is_demanding(self, node: str) -> bool:
        """Whether the latest report of a node contains its demand, and which pods it counts."""
        return node in self._reports

    @property
    def in_flight_count(self) -> int:
        """Number of pods in flight."""
        return len(self._in_flight)

    def in_flight(self, uid: str) -> InFlight | None:
        """The pod with this UID, if it is in flight."""
        return self._in_flight.get(uid)

    def in_flight_to(self, node: str) -> frozenset[str]:
        """The UIDs of the pods in flight to a node."""
        return frozenset(self._in_flight_to.get(node, ()))

    def coming(self, node: str) -> set[str]:
        """The workloads of the pods in flight to a node."""
        return {self._in_flight[uid].workload for uid in self._in_flight_to.get(node, ())}

    def report(self, report: DemandReport, now: float) -> None:
        """Take in a node's report: it replaces the last one, and the pods that it counts are no longer in flight."""
        node = report.node
        is_new = node not in self._rows
        if is_new:
            self._add_row(node)
        told = self._told[node] = _Told.by(report.workloads)
        self._reports[node] = report
        self.cpu.update(node, {name: known.cores for name, known in report.workloads.items()})
        self.memory.update(node, {name: known.gib for name, known in report.workloads.items()})
        reads = {name: known.reads for name, known in report.workloads.items() if known.reads is not None}
        self.reads.update(node, reads)
        row = self._rows[node]
        for uid in [uid for uid in self._in_flight_to.get(node, ()) if uid in report.counted]:
            took_s = now - self._remove(uid).since
            if is_new:
                continue  # the pod may have run for long
            self._start_up_s[row] += START_UP_GAIN * (min(took_s, MOST_START_UP_S) - self._start_up_s[row])
        if node in self._over:
            over = self._over[node] = {uid: None for uid in self._over[node] if uid in report.counted}
            if not over:
                del self._over[node]
        measured = [known.measured for known in report.workloads.values()]
        self._dependence.note(node, dict(zip(told.names, told.exposed, strict=True)))
        self._known.note(row, told.names, told.pods, told.gib, measured)
        self._columns[:, row] = np.nan
        self._columns[self._CORES, row], self._columns[self._GIB, row] = report.cores, report.gib
        self._columns[self._LOWER, row] = lower_level(self._variant, np.array(report.cores))
        self._columns[self._AT, row] = now
        for other in self._dependence.to_sum_up(told.names, lambda name: self.cpu.cost(name).mean, now) | {node: None}:
            self._sum_up(other)

    def report_capacity(self, node: str, pod_capacity: float, now: float) -> None:
        """Take in the report of a node that only says how many more pods it can take."""
        if node not in self._rows:
            self._add_row(node)
        row = self._rows[node]
        self._drop_report(node, row)
        self._columns[:, row] = np.nan
        self._columns[[self._CAPACITY, self._AT], row] = pod_capacity, now
        self._pods[row] = -1

    def forget(self, node: str) -> None:
        """Drop a node that has left the cluster."""
        row = self._rows.pop(node)
        del self._node_of[row]
        self._drop_report(node, row)
        self._columns[:, row] = np.nan
        self._free.append(row)
        self._note_columns()

    def _drop_report(self, node: str, row: int) -> None:
        if self._reports.pop(node, None) is not None:
            del self._told[node]
            self._dependence.forget(node)
            self._known.forget(row)
            self.cpu.forget(node)
            self.memory.forget(node)
            self.reads.forget(node)
        self._over.pop(node, None)

    def silent(self, now: float, since_s: float) -> list[str]:
        """Return the nodes that have not reported for more than `since_s` seconds."""
        quiet = now - self._columns[self._AT] > since_s
        return [node for node, row in self._rows.items() if quiet[row]] if quiet.any() else []

    def place(self, uid: str, workload: str, node: str, now: float) -> None:
        """Note that a pod is in flight to a node, and to no other, unless the node's report counts it already."""
        self.end(uid)
        report = self._reports.get(node)
        if report is not None and uid in report.counted:
            return
        self._in_flight[uid] = InFlight(node, workload, now)
        self._in_flight_to[node][uid] = None
        self._counts[workload][node] += 1
        self._sum_up(node)

    def end(self, uid: str) -> str | None:
        """Note that a pod is no longer in flight, and return the node that it was going to."""
        if uid not in self._in_flight:
            return None
        node = self._remove(uid).node
        self._sum_up(node)
        return node

    def over(self, uid: str, node: str) -> None:
        """Note that a pod of a node has ended."""
        self.end(uid)
        report = self._reports.get(node)
        if report is not None and uid in report.counted:
            self._over[node][uid] = None
            self._sum_up(node)

    def note_critical(self, uid: str, node: str | None) -> None:
        """Note which node a latency-critical pod is on, or on its way to; None if it has none any more."""
        before = self._critical.pop(uid, None)
        if node is not None:
            self._critical[uid] = node
        if before == node:
            return
        if before is not None:
            self._critical_at[before].discard(uid)
            if not self._critical_at[before]:
                del self._critical_at[before]
            self._note_whether_critical(before)
        if node is not None:
            self._critical_at[node].add(uid)
            self._note_whether_critical(node)

    def _note_whether_critical(self, node: str) -> None:
        if node in self._rows:
            self._has_critical[self._rows[node]] = node in self._critical_at

    def workloads(self) -> set[str]:
        """The workloads that any node knows, or that are remembered."""
        return {name for memory in self.remembered for name in memory.workloads}.union(self._known.workloads)

    def runs(self, workload: str) -> bool:
        """Whether any node reports running pods of a workload."""
        return self._known.runs(workload)

    def measured(self, workload: str) -> bool:
        """Whether any node has lately measured pods of a workload by themselves, except for what they read."""
        return self._known.measured(workload)

    def remember(
        self, workloads: Collection[str], elapsed_s: float, now: float, shown: Container[str] | None = None
    ) -> None:
        """Note what those of `workloads` cost whose pods run, and have done so for the last `elapsed_s` seconds.

        To be called every few seconds: what no longer matters is forgotten, too. If `shown` is given, only pods of
        these workloads have lately shown what they cost by starting or ending; what others cost is known as far as
        nodes have measured them.
        """
        for workload in filter(self.runs, workloads):
            seen = shown is None or workload in shown
            self.reads.remember(workload, elapsed_s, now, seen)
            seen = seen or self.measured(workload)
            self.cpu.remember(workload, elapsed_s, now, seen)
            self.memory.remember(workload, elapsed_s, now, seen)
        for memory in self.remembered:
            memory.forget(now)
        self._dependence.forget_costs()

    def far(self) -> dict[tuple[str, str], Said]:
        """Which nodes know a workload's cost and report one that is clipped, by node and what it is about."""
        pools = ("cores", self.cpu), ("GiB", self.memory)
        return {
            (node, f"{unit} of a pod of {workload}"): said
            for unit, pool in pools
            for workload, node, said in islice(pool.far(), MOST)
        }

    def idle_s(self, workload: str, now: float) -> float:
        """Seconds since a pod of a workload ran, as far as it is remembered."""
        if self.runs(workload):
            return 0.0
        found = [memory.idle_s(workload, now) for memory in self.remembered if workload in memory]
        return min(found, default=0.0)

    def at_nodes(self, workload: str) -> dict[str, WorkloadReport]:
        """What the nodes that know a workload have reported about it, by node."""
        nodes = [self._node_of[row] for row in self._known.nodes(workload)]
        return {node: self._reports[node].workloads[workload] for node in nodes}

    def row(self, node: str) -> int:
        """Return the column of a node; -1 if it has not reported."""
        return self._rows.get(node, -1)

    def rows(self, nodes: Sequence[str]) -> IntArray:
        """Return the columns of nodes; -1, whose column is NaN, for nodes that have not reported."""
        return self._rows.of(nodes)

    def mark(self, rows: IntArray) -> tuple[int, bytes] | None:
        """Return a value that is equal for equal sets of columns, while no node comes or goes; None if any is -1."""
        if (rows < 0).any():
            return None
        among = np.zeros(self._pods.size, np.bool_)
        among[rows] = True
        return self._generation, among.tobytes()

    @property
    def width(self) -> int:
        """Number of columns."""
        return self._pods.size

    @property
    def all_rows(self) -> IntArray:
        """The columns of all nodes."""
        if self._all_rows is None:
            self._all_rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
        return self._all_rows

    def among(self, nodes: frozenset[str] | None) -> IntArray:
        """The columns of those of these nodes that have reported, in any order; of all nodes, if None is given."""
        if nodes is None:
            return self.all_rows
        rows = self._among.get(nodes)
        if rows is None:
            if len(self._among) >= _MOST_SETS:
                self._among.clear()
            found = self.rows(list(nodes))
            rows = self._among[nodes] = np.sort(found[found >= 0])
        return rows

    def demanding_among(self, nodes: frozenset[str] | None) -> IntArray:
        """Like `among`, but only the nodes whose latest report contains their demand."""
        rows = self.among(nodes)
        return rows if self._all_demanding else rows[~np.isnan(self.cores(rows))]

    def cores(self, rows: Rows) -> FloatArray:
        """CPUs of nodes."""
        return self._column(self._CORES, rows)

    def lower_level(self, rows: Rows) -> FloatArray:
        """The lower level of nodes, see `filling`; cores."""
        return self._column(self._LOWER, rows)

    def gib(self, rows: Rows) -> FloatArray:
        """Memory of nodes, GiB."""
        return self._column(self._GIB, rows)

    def cpu_load(self, rows: Rows) -> FloatArray:
        """The load of nodes with a margin for doubt, less the load of pods that are about to stop; cores."""
        return self._column(self._LOAD, rows)

    def freed(self, rows: Rows) -> FloatArray:
        """Cores that stopping pods have recently freed per second."""
        return self._column(self._CREDIT, rows)

    def credit(self, rows: Rows) -> FloatArray:
        """The load of pods that are about to stop, as `cpu_load` subtracts it; cores."""
        credit: FloatArray = self._start_up_s[rows] * self._column(self._CREDIT, rows)
        return credit

    def memory_load(self, rows: Rows) -> FloatArray:
        """Memory that nodes hold, with a margin for doubt; GiB."""
        return self._column(self._MEMORY, rows)

    def reads_room(self, rows: Rows) -> FloatArray:
        """How many more reads may be under way on nodes, with those of the pods in flight; infinite if unknown."""
        return self._column(self._READS, rows)

    def age_s(self, rows: Rows, now: float) -> FloatArray:
        """Seconds since nodes reported; NaN if they never did."""
        return now - self._column(self._AT, rows)

    def idle(self, rows: Rows) -> BoolArray:
        """Whether nodes run no pod, and no pod is in flight to them."""
        idle: BoolArray = self._pods[rows] == 0
        return idle

    @property
    def any_critical(self) -> bool:
        """Whether any node has latency-critical pods, or such pods are on their way to it."""
        return bool(self._critical_at)

    def critical(self, rows: Rows) -> BoolArray:
        """Whether nodes have latency-critical pods, or such pods are on their way to them."""
        if not self.any_critical:
            none: BoolArray = self.constant(rows, np.False_)
            return none
        critical: BoolArray = self._has_critical[rows].copy()  # a decision must not change when it is carried out
        return critical

    def capacity(self, rows: Rows) -> FloatArray:
        """How many more pods the nodes take that report only this number; NaN for the others."""
        if self._all_demanding:
            unknown: FloatArray = self.constant(rows, np.nan)
            return unknown
        capacity = self._column(self._CAPACITY, rows)
        coming = np.zeros(self._pods.size)
        for node, pods in self._in_flight_to.items():
            if node in self._rows:
                coming[self._rows[node]] = len(pods)
        left: FloatArray = capacity - coming[rows]
        return left

    def constant(self, rows: Rows, value: float | np.bool_) -> Any:
        """Return the same value for all nodes."""
        if isinstance(rows, int):
            return value
        return np.full(self._pods.size if isinstance(rows, slice) else rows.size, value)

    def local(self, workload: str, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """A workload's pods on nodes or in flight to them, and a pod's memory as each node knows it, GiB."""
        coming: Mapping[str, int] = self._counts.get(workload, {})
        if isinstance(rows, int):
            running, here = self._known.of(workload, rows)
            numbers: Any = running + coming.get(self._node_of.get(rows, ""), 0), here
            return numbers[0], numbers[1]
        pods, gib = self._known.spread(workload, self._pods.size)
        for node, number in coming.items():
            if node in self._rows:
                pods[self._rows[node]] += number
        return pods[rows], gib[rows]

    def is_coming(self, workload: str) -> bool:
        """Whether any pod of a workload is in flight."""
        return workload in self._counts

    def _column(self, what: int, rows: Rows) -> FloatArray:
        # The first index alone is a view: an index of both takes three times as long.
        values: Any = self._columns.item(what, rows) if isinstance(rows, int) else self._columns[what][rows]
        column: FloatArray = values
        return column

    def _remove(self, uid: str) -> InFlight:
        pod = self._in_flight.pop(uid)
        del self._in_flight_to[pod.node][uid]
        if not self._in_flight_to[pod.node]:
            del self._in_flight_to[pod.node]
        ways = self._counts[pod.workload]
        ways[pod.node] -= 1
        if not ways[pod.node]:
            del ways[pod.node]
            if not ways:
                del self._counts[pod.workload]
        return pod

    def _sum_up(self, node: str) -> None:
        """Recompute a node's load."""
        row, report = self._rows.get(node), self._reports.get(node)
        if row is None or report is None:
            return
        caution = self._variant.caution
        change = _count(self._in_flight[uid].workload for uid in self._in_flight_to.get(node, ()))
        over = _count(report.counted[uid] for uid in self._over.get(node, ()))
        cpu, cpu_variance = report.demand_cores
        memory_variance = known = credit = 0.0
        for workload, number in change.items():
            cores = self.cpu.cost(workload)
            cpu += number * cores.mean
            # The pods of a workload are either all cheap or all expensive: standard deviations add up, not variances.
            running = report.workloads[workload].pods if workload in report.workloads else 0
            alike = number + running
            cpu_variance += (alike**2 - running**2) * cores.variance
            memory_variance += alike**2 * self.memory.cost(workload).variance
        told = self._told[node]
        costs = self.cpu.costs(told.names), self.memory.costs(told.names)
        for name, pods, here, own, exposed, stops_per_s, cores, gib in zip(*told, *costs, strict=True):
            if exposed:
                # What others know of a workload corrects what the node takes its new pods to demand.
                most = _FAR * math.sqrt(own.variance)
                cpu += exposed * min(max(cores.mean - own.mean, -most), most)
                cpu_variance -= exposed**2 * max(own.variance - cores.variance, 0.0)
            if pods:
                # Other nodes may know better how large growing pods become.
                known += pods * (here if here > gib.mean else gib.mean)
                if name not in change:
                    memory_variance += pods * pods * gib.variance
            credit += stops_per_s * cores.mean
        memory = max(report.held_gib, report.baseline_gib + known)
        for workload, number in change.items():
            memory += number * self.memory.cost(workload).mean
        for ended, number in over.items():
            cpu -= number * self.cpu.cost(ended).mean
            memory -= number * self.memory.cost(ended).mean
        soon = self._start_up_s[row] * credit
        self._columns[self._LOAD, row] = max(cpu, 0.0) + caution * max(cpu_variance, 0.0) - soon
        self._columns[self._MEMORY, row] = max(memory, 0.0) + caution * memory_variance
        self._columns[self._CREDIT, row] = credit
        self._columns[self._READS, row] = self._reads_left(report, change, over)
        counted = len(report.counted) - list(report.counted.values()).count(None)
        self._pods[row] = counted - sum(over.values()) + sum(change.values())

    def _reads_left(self, report: DemandReport, coming: Mapping[str, int], over: Mapping[str, int]) -> float:
        """How many more reads may be under way on a node."""
        if report.disk is None:
            return math.inf
        reads = report.disk.reads + sum(number * self.reads.cost(workload).mean for workload, number in coming.items())
        reads -= sum(number * self.reads.cost(ended).mean for ended, number in over.items())
        return report.disk.level - max(reads, 0.0)

    def _add_row(self, node: str) -> None:
        if not self._free:
            size = self._pods.size
            more = max(size // 4, 8)  # decisions look at the columns that are not used, too
            self._columns = np.concatenate((self._columns, np.full((self._HEIGHT, more), np.nan)), axis=1)
            self._pods = np.concatenate((self._pods, np.zeros(more, np.int64)))
            self._has_critical = np.concatenate((self._has_critical, np.zeros(more, np.bool_)))
            self._start_up_s = np.concatenate((self._start_up_s, np.full(more, FIRST_START_UP_S)))
            self._free = list(range(size + more - 2, size - 2, -1))
        row = self._rows[node] = self._free.pop()
        self._node_of[row] = node
        self._has_critical[row] = node in self._critical_at
        self._start_up_s[row] = FIRST_START_UP_S
        self._note_columns()

    def _note_columns(self) -> None:
        """Note that a node has got or lost its column."""
        self._generation += 1
        self._all_rows = None
        self._among.clear()


def _count(workloads: Iterable[str | None]) -> dict[str, int]:
    """Return the number of pods by workload, without those of the platform, whose workload is None."""
    counts: dict[str, int] = {}
    for workload in workloads:
        if workload is not None:
            counts[workload] = counts.get(workload, 0) + 1
    return counts
