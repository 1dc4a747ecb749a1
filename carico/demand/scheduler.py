"""The core of the scheduler of the variant `demand`: where a pod goes, and how long its answer is held. Pure.

Nodes are filled to a level of load (`filling`). The node with the most room takes the pod. If no node has room, and no
other waiting pod would find room meanwhile, the answer is held for a moment: room appears many times a second, but a
refused pod comes back after a second at the earliest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from carico.arrays import FloatArray, IntArray
from carico.demand.candidates import Candidates
from carico.demand.decision import DemandDecision, Rooms
from carico.demand.filling import level, needed_gib
from carico.demand.loads import Loads, Rows
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.settings import DemandVariant
from carico.demand.waiting import Kind, Waiting
from carico.demand.witnesses import Witnesses, is_own
from carico.errors import NotReady
from carico.outliers import Outlier, Outliers
from carico.saved import checked_mapping
from carico.scheduling.scheduler import FORGOTTEN_AFTER_S, REPEATED_S, RESERVATION_TIMEOUT_S, STALE_AFTER_S
from carico.scheduling.uncounted import Uncounted
from carico.scheduling.wake_up import WakeUp

REMEMBER_EVERY_S = 5.0
"""How often is noted what the workloads cost whose pods run."""
_MOST_TRIED = 16
"""The most kinds of waiting pods that are tried on a node: it limits what a report costs."""
_MOST_SUMMED = 100
"""If more kinds of pods wait, it is not computed whether all of them fit at once."""
_MOST_TIMES = 16.0
_ABOVE = 0.75
_FEWEST = 4
"""Where it is decided for all nodes whether pods share CPUs, a node counts as at most 16 times as large as three
quarters of the nodes are: one that claims to be huge must not overload all others. With fewer nodes it is not told."""


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


class DemandScheduler:
    """Decides about pods; times are seconds on one clock, and never decrease from call to call.

    Parameters
    ----------
    variant : DemandVariant
    wake_up : WakeUp, optional
        Without it refused pods are never woken.
    wake : callable, optional
        Called with a node that has room again, and with its room in cores, when refused pods should be tried again
        because of it; must return at once.
    stale_after_s, reservation_timeout_s : float, optional
        See `carico.scheduling.scheduler`.
    sees_pods : bool, optional
        Whether `pod_changed` is called for all pods: nodes are then believed only about workloads that they ran.
    """

    def __init__(
        self,
        variant: DemandVariant,
        wake_up: WakeUp | None = None,
        wake: Callable[[str, float], None] = lambda node, room: None,
        stale_after_s: float = STALE_AFTER_S,
        reservation_timeout_s: float = RESERVATION_TIMEOUT_S,
        sees_pods: bool = False,
    ) -> None:
        self._variant = variant
        self._wake_up = wake_up
        self._wake = wake
        self._stale_after_s = stale_after_s
        self._timeout_s = reservation_timeout_s
        self._sees_pods = sees_pods
        self._witnesses = Witnesses()
        self.loads = Loads(variant)
        self._bound: dict[str, str] = {}
        """The node of every pod that the API shows as bound and not ended, by UID."""
        self._workloads: dict[str, str] = {}
        """The workloads of these pods, by UID."""
        self._due: dict[str, float] = {}
        """When pods in flight that are not bound are given up, by UID; the earliest first."""
        self._uncounted = Uncounted(stale_after_s)
        self.waiting = Waiting()
        self._candidates = Candidates()
        self._held: tuple[str, float] | None = None
        """The pod whose answer is held, and until when."""
        self._may_hold = True
        self._generation = -1
        self._demanding: dict[frozenset[str], IntArray] = {}
        """Cache for this generation of loads: see `_demanding_among`."""
        self._remembered_at = 0.0
        self.outliers = Outliers()
        self.room_appeared = 0
        """How often a node was found to have room for a waiting pod, or a pod came that may find room."""

    def pod_waits(self, uid: str, kind: Kind) -> None:
        """Note that a pod was created and has no node yet."""
        if uid not in self._bound:
            # An answer that is held must not keep pods waiting that may go elsewhere.
            self.room_appeared += kind not in self.waiting.kinds
            self.waiting.add(uid, kind)

    def filter(self, uid: str, kind: Kind, nodes: Sequence[str], now: float) -> DemandDecision:
        """Decide on a pod; if a node has room, the pod is in flight to it from now on.

        Raises
        ------
        NotReady
            If the pod is bound already; nothing has changed then.
        """
        if uid in self._bound:
            raise NotReady(
                f"the pod {uid} is bound to {self._bound[uid]} already: wait until the watch on pods shows it"
            )
        self._end(uid)
        self.waiting.add(uid, kind)
        self.waiting.refused.discard(uid)
        rows = self.loads.rows(nodes)
        self._candidates.note(kind.placement, nodes, self.loads.mark(rows))
        decision = self._decision(kind, nodes, rows, now)
        node = decision.node
        if node is not None:
            self.waiting.remove(uid)
            if kind.critical:
                self.loads.note_critical(uid, node)
            self.loads.place(uid, kind.workload, node, now)
            self._due[uid] = now + self._timeout_s
            self._held, self._may_hold = None, True
            return decision
        hold_s = self._hold_s(uid, kind, now)
        if not hold_s:
            self.waiting.refused.add(uid)
        return replace(decision, hold_s=hold_s)

    def repeated(self, uid: str, nodes: Sequence[str], now: float) -> int | None:
        """Return the index of the candidate that the pod was given a moment ago; see `Scheduler.repeated`."""
        pod = self.loads.in_flight(uid)
        if pod is None or now - (self._due.get(uid, 0.0) - self._timeout_s) >= REPEATED_S:
            return None
        return nodes.index(pod.node) if pod.node in nodes else None

    def decision(self, kind: Kind, nodes: Sequence[str], now: float) -> DemandDecision:
        """Return what `filter` would decide on a pod; nothing changes."""
        return self._decision(kind, nodes, self.loads.rows(nodes), now)

    def report(self, report: DemandReport, now: float) -> None:
        """Take in a node's report."""
        if self._sees_pods:
            report = self._witnesses.checked(report, self.loads.coming(report.node))
        self.loads.report(report, now)
        self._end_uncounted(report.node, now)
        self._look(report.node, now)

    def report_capacity(self, node: str, pod_capacity: float, now: float) -> None:
        """Take in the report of a node whose agent reports no demand, only how many more pods the node can take."""
        self.loads.report_capacity(node, pod_capacity, now)
        self._end_uncounted(node, now)
        self._look(node, now)

    def pod_changed(
        self,
        uid: str,
        workload: str,
        node: str,
        ended: bool,
        now: float,
        *,
        running: bool = False,
        critical: bool = False,
    ) -> None:
        """Take in what the API shows of a pod.

        Parameters
        ----------
        uid, workload : str
        node : str
            The node that the pod is bound to; empty if it is not bound.
        ended : bool
            Whether the pod has ended.
        now : float
        running : bool, optional
            Whether the pod's containers run.
        critical : bool, optional
            Whether the pod is latency-critical.
        """
        if ended:
            self.pod_gone(uid, now)
        elif node:
            self.waiting.remove(uid)
            self._due.pop(uid, None)
            first = uid not in self._bound
            if first:
                self._bound[uid] = node
                self._workloads[uid] = workload
                self._witnesses.started(node, workload)
            self.loads.note_critical(uid, node if critical else None)
            in_flight = self.loads.in_flight(uid)
            # A pod that runs when it is first seen, as after a restart, is part of what its node reports.
            if (in_flight is None and first and not running) or (in_flight is not None and in_flight.node != node):
                self.loads.place(uid, workload, node, now)
            if running and self.loads.in_flight(uid) is not None:
                self._uncounted.runs(uid, now)

    def pod_gone(self, uid: str, now: float) -> None:
        """Take in that a pod has ended or was deleted."""
        self.waiting.remove(uid)
        self._due.pop(uid, None)
        self._uncounted.over(uid)
        self.loads.note_critical(uid, None)
        node = self._bound.pop(uid, None)
        if node is None:
            node = self.loads.end(uid)
        else:
            self._witnesses.ended(node, self._workloads.pop(uid))
            self.loads.over(uid, node)
        if node is not None:
            self._look(node, now)

    def tick(self, now: float) -> list[Outlier]:
        """End overdue reservations, and forget nodes that have long been silent; to be called once a second.

        Returns
        -------
        list of Outlier
            The nodes that have become outliers.
        """
        new_outliers: list[Outlier] = []
        while self._due and next(iter(self._due.values())) <= now:
            node = self._end(next(iter(self._due)))
            if node is not None:
                self._look(node, now)
        elapsed_s = now - self._remembered_at
        if elapsed_s >= REMEMBER_EVERY_S:
            self._remembered_at = now
            # Nobody has looked in a longer pause: pods may not have run all the time. A node may have made up what the
            # API does not show. Of many workloads, those that are noted first are forgotten first: a set would have
            # another order in every process.
            self.loads.remember(dict.fromkeys(self._workloads.values()), min(elapsed_s, 2 * REMEMBER_EVERY_S), now)
            new_outliers = self.outliers.look(self.loads.far(), now)
        for node in self.loads.silent(now, FORGOTTEN_AFTER_S):
            self.loads.forget(node)
            self._witnesses.forget(node)
            self._uncounted.forget(node)
            if self._wake_up is not None:
                self._wake_up.forget(node)
        return new_outliers

    def cost(self, workload: str) -> tuple[Estimate, Estimate]:
        """What a pod of a workload demands, according to all nodes together: cores, GiB."""
        return self.loads.cpu.cost(workload), self.loads.memory.cost(workload)

    def nodes(self, now: float) -> list[NodeLoad]:
        """Return the load of every node that has reported."""
        loads, names = self.loads, self.loads.nodes
        rows = loads.rows(names)
        columns = (
            loads.cores(rows),
            np.maximum(loads.cpu_load(rows), 0.0),
            level(self._variant, loads.cores(rows), 0.0, share=self._share(), critical=loads.critical(rows)),
            loads.gib(rows),
            loads.memory_load(rows),
            loads.capacity(rows),
            loads.age_s(rows, now),
        )
        values = (column.tolist() for column in (*columns, loads.age_s(rows, now) > self._stale_after_s))
        coming = [len(loads.in_flight_to(name)) for name in names]
        found = zip(names, coming, *values, strict=True)
        # NaN, which differs from itself, stands for unknown.
        return [NodeLoad._make(None if value != value else value for value in row) for row in found]

    def known(self) -> dict[str, dict[str, WorkloadReport]]:
        """Return what each node knows about each workload, before it is pooled, by workload and node."""
        return {workload: self.loads.at_nodes(workload) for workload in self.loads.workloads()}

    def save(self, now: float) -> dict[str, Any]:
        """Return what is remembered of workloads, as JSON values."""
        cpu, memory = self.loads.remembered
        return {"cpu": cpu.save(now), "memory": memory.save(now)}

    def restore(self, state: Mapping[str, Any], elapsed_s: float, now: float) -> None:
        """Take over what `save` returned `elapsed_s` seconds ago, here or elsewhere, as far as less is known here.

        Raises
        ------
        InvalidState
            If the state is damaged; what is remembered has not changed then.
        """
        parts = [
            memory.read(checked_mapping(state, name), elapsed_s, now)
            for name, memory in zip(("cpu", "memory"), self.loads.remembered, strict=True)
        ]
        for memory, part in zip(self.loads.remembered, parts, strict=True):
            memory.take_over(part, now)

    def costs(self, now: float) -> list[WorkloadCost]:
        """Return the costs of all workloads that any node knows, or that are remembered."""
        found = []
        for workload in sorted(self.loads.workloads()):
            if is_own(workload) and not self.loads.runs(workload):
                continue
            cores, gib = self._told(workload)
            running = [each.pods for each in self.loads.at_nodes(workload).values() if each.pods]
            found.append(
                WorkloadCost(
                    workload,
                    cores.mean,
                    math.sqrt(cores.variance),
                    gib.mean,
                    math.sqrt(gib.variance),
                    sum(running),
                    len(running),
                    self.loads.idle_s(workload, now),
                )
            )
        return found

    def workloads(self) -> Workloads:
        """Return how many workloads are known."""
        # Pods of the platform, which no node counts, are not waited for to become known.
        running = set(filter(self.loads.runs, set(self._workloads.values())))
        waiting = {kind.workload for kind in self.waiting.kinds} - running
        remembered = {name for memory in self.loads.remembered for name in memory.workloads}
        present = running | waiting
        pools = self.loads.cpu, self.loads.memory
        unknown = sum(not all(pool.knows(workload) for pool in pools) for workload in present)
        return Workloads(len(running), len(waiting), unknown, len(remembered - present))

    def _told(self, workload: str) -> tuple[Estimate, Estimate]:
        """What people are told of a workload: what its pods demand, or used to if none runs any more."""
        if self.loads.runs(workload):
            return self.cost(workload)
        cpu, memory = (
            memory.known(workload) if workload in memory else now
            for memory, now in zip(self.loads.remembered, self.cost(workload), strict=True)
        )
        return cpu, memory

    def _end_uncounted(self, node: str, now: float) -> None:
        """End the reservations of pods that the node's agent leaves out; as long as it is silent, they hold."""
        self._uncounted.reported(node, now)
        for uid in self.loads.in_flight_to(node):
            if self._uncounted.left_out(uid, node, now):
                self._end(uid)

    def _end(self, uid: str) -> str | None:
        """Note that a pod is no longer in flight, and return the node that it was going to."""
        self._due.pop(uid, None)
        self._uncounted.over(uid)
        if uid not in self._bound:
            self.loads.note_critical(uid, None)
        return self.loads.end(uid)

    def _decision(self, kind: Kind, nodes: Sequence[str], rows: IntArray, now: float) -> DemandDecision:
        cores, gib = self.cost(kind.workload)
        rooms = self._rooms(kind.workload, rows, now, share=self._share())
        return DemandDecision(nodes, kind.workload, cores, gib, rooms, stale_after_s=self._stale_after_s)

    def _rooms(self, workload: str, rows: Rows, now: float, *, share: bool, placement: str | None = None) -> Rooms:
        """What nodes offer a pod of a workload, and what the pod needs there.

        By default the nodes are all that the pod may go to; otherwise `placement` tells which these are.
        """
        loads, variant = self.loads, self._variant
        cpu, memory = self.cost(workload)
        running, known_gib = loads.local(workload, rows)
        in_flight = loads.in_flight_counts(workload, rows)
        critical = loads.critical(rows)
        if loads.any_critical:
            too_large = critical & (variant.critical_share * loads.cores(rows) <= cpu.mean)
            if too_large.any():
                among = rows if placement is None else self._rows_of(placement)
                elsewhere = ~loads.critical(among) & (loads.age_s(among, now) <= self._stale_after_s)
                if not elsewhere.any():
                    critical = critical & ~too_large  # or the pod would wait for ever
        kept = critical if loads.any_critical else None
        fill_to = level(variant, loads.cores(rows), cpu.mean, share=share, critical=kept)
        return Rooms(
            fill_to - loads.cpu_load(rows),
            variant.memory_limit * loads.gib(rows) - loads.memory_load(rows),
            needed_gib(variant, np.maximum(memory.mean, known_gib), memory.variance, in_flight + running),
            loads.capacity(rows),
            # A pod that does not fit on an idle node will not fit anywhere better.
            loads.idle(rows) & ~critical,
            critical,
            loads.age_s(rows, now),
        )

    def _share(self) -> bool:
        """Whether all waiting pods fit below the higher level, where they may go, and would otherwise wait for long.

        They would not wait for long if enough other pods stop soon. Pods that may not be placed above the lower level
        do not fit.
        """
        if len(self.waiting.kinds) > _MOST_SUMMED:
            return False
        variant = self._variant
        wanted: defaultdict[str, float] = defaultdict(float)
        widest: defaultdict[str, float] = defaultdict(float)
        for kind, number in self.waiting.kinds.items():
            cores = self.loads.cpu.cost(kind.workload)
            wanted[kind.placement] += number * (cores.mean + variant.caution * cores.variance)
            widest[kind.placement] = max(widest[kind.placement], cores.mean)
        everywhere = self._demanding_among(self._candidates.usable)
        in_all, soon = sum(wanted.values()), variant.patience_s * float(self.loads.freed(everywhere).sum())
        if soon >= in_all or not self._take(everywhere, in_all, max(widest.values(), default=0.0)):
            return False
        for placement, cores_wanted in wanted.items():
            rows = self._demanding_among(self._candidates.set_of(placement))
            if rows is not everywhere and not self._take(rows, cores_wanted, widest[placement]):
                return False
        return True

    def _take(self, rows: IntArray, cores: float, widest: float) -> bool:
        """Whether nodes have room for this many cores below the higher level, and may take pods of `widest` cores."""
        variant = self._variant
        if self.loads.any_critical:
            rows = rows[~self.loads.critical(rows)]
        size = _believed(self.loads.cores(rows))
        if widest > variant.wide * float(size.max(initial=0.0)):
            return False
        room = variant.threads_per_core * size - self.loads.cpu_load(rows)
        return cores <= float(np.maximum(room, 0.0).sum())

    def _demanding_among(self, nodes: frozenset[str]) -> IntArray:
        """The rows of those of these nodes that report their demand; of all such nodes if none are given."""
        if self._generation != self.loads.generation or len(self._demanding) > _MOST_SUMMED:
            self._generation = self.loads.generation
            self._demanding.clear()
        rows = self._demanding.get(nodes)
        if rows is None:
            found = [node for node in self.loads.demanding if node in nodes] if nodes else self.loads.demanding
            rows = self._demanding[nodes] = self.loads.rows(found)
        return rows

    def _hold_s(self, uid: str, kind: Kind, now: float) -> float:
        """How long the answer about a pod without room may be held."""
        if self._held is not None and self._held[0] == uid:
            hold_s = self._held[1] - now
            if hold_s > 1e-6 and not self._others_fit(kind, now):
                return hold_s
            self._held, self._may_hold = None, False
            return 0.0
        if not self._may_hold or self._others_fit(kind, now):
            return 0.0
        self._held = uid, now + self._variant.hold_s
        return self._variant.hold_s

    def _others_fit(self, kind: Kind, now: float) -> bool:
        """Whether a waiting pod of another kind would find room; tries the cheapest workload of each placement."""
        cheapest: dict[str, tuple[float, str]] = {}
        for other in islice(self.waiting.kinds, _MOST_SUMMED):
            if other != kind:
                cost = self.loads.cpu.cost(other.workload).mean, other.workload
                cheapest[other.placement] = min(cost, cheapest.get(other.placement, cost))
        share = self._share()
        return any(
            self._rooms(workload, self._rows_of(placement), now, share=share).fits(self._stale_after_s).any()
            for placement, (_, workload) in islice(cheapest.items(), _MOST_TRIED)
        )

    def _rows_of(self, placement: str) -> IntArray:
        nodes = self._candidates.of(placement)
        return self.loads.all_rows if nodes is None else self.loads.rows(nodes)

    def _takes_any(self, node: str, now: float) -> bool:
        """Whether a node has room for a pod of one of the kinds that have waited the longest."""
        loads, variant, row = self.loads, self._variant, self.loads.row(node)
        share = False
        if loads.critical(row):
            share = self._share()
        elif not (loads.idle(row) or loads.capacity(row) >= 1):
            # No kind has room above the higher level. Below the lower level it does not matter whether pods share.
            cores, load = loads.cores(row), loads.cpu_load(row)
            if not load < level(variant, cores, 0.0, share=False):
                if not load < level(variant, cores, 0.0, share=True) or not self._share():
                    return False
                share = True
        allowed = (kind for kind in self.waiting.kinds if self._candidates.allowed(kind.placement, node))
        return any(
            self._rooms(kind.workload, row, now, share=share, placement=kind.placement).fits(self._stale_after_s)
            for kind in islice(allowed, _MOST_TRIED)
        )

    def _look(self, node: str, now: float) -> None:
        """Wake refused pods if a node has room for one of them."""
        if not self.waiting:
            return
        fits = self._takes_any(node, now)
        if fits:
            self._may_hold = True
            self.room_appeared += 1
        wanted = bool(self.waiting.refused)
        if self._wake_up is not None and self._wake_up.observe(node, float(fits), now, wanted=wanted):
            row = self.loads.row(node)
            self._wake(node, float(self.loads.cores(row) - self.loads.cpu_load(row)))


def _believed(cores: FloatArray) -> FloatArray:
    """Return the sizes of nodes as they are believed where something is decided for all nodes."""
    if cores.size < _FEWEST:
        return cores
    place = int(_ABOVE * (cores.size - 1))
    believed: FloatArray = np.minimum(cores, _MOST_TIMES * np.partition(cores, place)[place])
    return believed
