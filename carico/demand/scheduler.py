"""The core of the scheduler of the variant `demand`: where a pod goes, and how long its answer is held. Pure.

Nodes are filled to a level of load (`filling`), which is a higher one if waiting pods should share CPUs (`sharing`).
The node with the most room takes the pod. If no node has room, the answer may be held for a moment (`holding`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from carico.arrays import IntArray
from carico.demand.candidates import Candidates
from carico.demand.decision import DemandDecision, Rooms
from carico.demand.filling import PARALLEL_CORES, certainly_reads, least_wide, level, needed_gib, reads_left
from carico.demand.holding import Holding
from carico.demand.loads import ALL, Loads, Rows
from carico.demand.overview import NodeLoad, WorkloadCost, Workloads, count_workloads, node_loads, workload_costs
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.settings import DemandVariant
from carico.demand.sharing import MOST_SUMMED, Sharing
from carico.demand.waiting import Kind, Waiting
from carico.demand.witnesses import Witnesses
from carico.errors import NotReady
from carico.outliers import Outlier, Outliers
from carico.saved import checked_mapping
from carico.scheduling.node_counts import NodeCounts
from carico.scheduling.scheduler import FORGOTTEN_AFTER_S, REPEATED_S, RESERVATION_TIMEOUT_S, STALE_AFTER_S
from carico.scheduling.uncounted import Overdue, Uncounted
from carico.scheduling.wake_up import WakeUp

REMEMBER_EVERY_S = 5.0
"""How often is noted what the workloads cost whose pods run."""
SHOWN_S = 60.0
"""For how long after a pod has started or ended nodes tell well what a pod of its workload costs: what they demand does
not show it while the same pods run, and nodes forget it."""
_MOST_TRIED = 16
"""The most kinds of waiting pods that are tried on a node: it limits what a report costs."""
_GOLDEN = (5**0.5 - 1) / 2
_SAVED = "cpu", "memory", "reads"
"""What is remembered of workloads; earlier versions save no reads."""


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
        self._sharing = Sharing(variant, self.waiting, self._candidates)
        self._holding = Holding(variant.hold_s)
        self._remembered_at = 0.0
        self._shown_at: dict[str, float] = {}
        """When the API last showed that a pod of a workload was given to a node, began to run or ended; the earliest
        first."""
        self._turns = 0
        """How often other kinds of waiting pods were tried than those that have waited the longest."""
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
            self._holding.placed()
            return decision
        hold_s = self._holding.hold_s(uid, lambda: self._others_fit(kind, now), now)
        if not hold_s:
            self.waiting.refused.add(uid)
            if self._wake_up is not None:
                self._wake_up.refused(nodes)
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
        for uid in self.loads.in_flight_to(report.node) & report.counted.keys():
            self._uncounted.over(uid)
        self.loads.report(report, now)
        self._end_uncounted(report.node, now, says=True)
        self._look(report.node, now)

    def report_capacity(self, node: str, pod_capacity: float, now: float) -> None:
        """Take in the report of a node whose agent reports no demand, only how many more pods the node can take."""
        self.loads.report_capacity(node, pod_capacity, now)
        self._end_uncounted(node, now, says=False)
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
        at_start: bool = False,
        optional: bool = False,
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
        at_start : bool, optional
            Whether pods are listed for the first time. Most of those that run then have done so for long, and those
            that no node reports would seem to be on their way to every node.
        optional : bool, optional
            Whether an agent may leave the pod out although it runs, see `carico.podevents.source`.
        """
        if ended:
            self.pod_gone(uid, now)
        elif node:
            self.waiting.remove(uid)
            self._due.pop(uid, None)
            first = uid not in self._bound
            if first and not at_start:
                self._note_shown(workload, now)
            if first:
                self._bound[uid] = node
                self._workloads[uid] = workload
                self._witnesses.started(node, workload)
            self.loads.note_critical(uid, node if critical else None)
            in_flight = self.loads.in_flight(uid)
            # What a node has reported may not count a pod yet that runs when it is first seen (`Loads.place` looks). A
            # node that has reported nothing, as after a restart, gets no pod before it counts what it must count.
            unreported = not running or (not optional if at_start else self.loads.is_demanding(node))
            coming = in_flight is None and first and unreported
            if coming or (in_flight is not None and in_flight.node != node):
                self.loads.place(uid, workload, node, now)
            if running and self.loads.in_flight(uid) is not None:
                self._uncounted.runs(uid, node, now, optional=optional)
                if not at_start:
                    self._note_shown(workload, now)

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
            workload = self._workloads.pop(uid)
            self._witnesses.ended(node, workload)
            self._note_shown(workload, now)
            self.loads.over(uid, node)
        if node is not None:
            self._look(node, now)

    def tick(self, now: float, shown: Container[str] = ()) -> list[Outlier]:
        """End overdue reservations, and forget nodes that have long been silent; to be called once a second.

        Parameters
        ----------
        now : float
        shown : container of str, optional
            The UIDs of the pods that the API shows at the moment. Their reservations are never overdue: bindings may
            take long, and kube-scheduler asks again if one has failed.

        Returns
        -------
        list of Outlier
            The nodes that have become outliers.
        """
        new_outliers: list[Outlier] = []
        while self._due and next(iter(self._due.values())) <= now:
            uid = next(iter(self._due))
            if uid in shown:
                del self._due[uid]
                continue
            node = self._end(uid)
            if node is not None:
                self._look(node, now)
        elapsed_s = now - self._remembered_at
        if elapsed_s >= REMEMBER_EVERY_S:
            self._remembered_at = now
            # Nobody has looked in a longer pause: pods may not have run all the time. A node may have made up what the
            # API does not show. Of many workloads, those that are noted first are forgotten first: a set would have
            # another order in every process.
            running = dict.fromkeys(self._workloads.values())
            self.loads.remember(running, min(elapsed_s, 2 * REMEMBER_EVERY_S), now, self._shown(now))
            new_outliers = self.outliers.look(self.loads.far(), now)
        for node in self.loads.silent(now, FORGOTTEN_AFTER_S):
            self.loads.forget(node)
            self._witnesses.forget(node)
            self._uncounted.forget(node)
            if self._wake_up is not None:
                self._wake_up.forget(node)
        return new_outliers

    def overdue(self, now: float) -> Iterable[Overdue]:
        """Return the pods that hold their places because their nodes do not count them, though they should."""
        return self._uncounted.overdue(now)

    def cost(self, workload: str) -> tuple[Estimate, Estimate]:
        """What a pod of a workload demands, according to all nodes together: cores, GiB."""
        return self.loads.cpu.cost(workload), self.loads.memory.cost(workload)

    def nodes(self, now: float) -> list[NodeLoad]:
        """Return the load of every node that has reported."""
        share, stale_after_s = self._share(), self._stale_after_s
        return node_loads(self.loads, self._variant, now, share=share, stale_after_s=stale_after_s)

    def node_counts(self, now: float) -> NodeCounts:
        """Count the nodes that have reported; one has room if a very small pod would not be refused."""
        loads, variant, rows = self.loads, self._variant, self.loads.all_rows
        age_s = loads.age_s(rows, now)
        small = Rooms(
            level(variant, loads.cores(rows), 0.0, share=self._share(), critical=loads.critical(rows))
            - loads.cpu_load(rows),
            variant.memory_limit * loads.gib(rows) - loads.memory_load(rows),
            np.zeros(len(rows)),
            loads.capacity(rows),
            loads.idle(rows) & ~loads.critical(rows),
            loads.critical(rows),
            age_s,
            np.full(len(rows), np.inf),
        )
        return NodeCounts.of(age_s, small.fits(self._stale_after_s), self._stale_after_s)

    def known(self) -> dict[str, dict[str, WorkloadReport]]:
        """Return what each node knows about each workload, before it is pooled, by workload and node."""
        return {workload: self.loads.at_nodes(workload) for workload in self.loads.workloads()}

    def save(self, now: float) -> dict[str, Any]:
        """Return what is remembered of workloads, as JSON values."""
        return {name: memory.save(now) for name, memory in zip(_SAVED, self.loads.remembered, strict=True)}

    def restore(self, state: Mapping[str, Any], elapsed_s: float, now: float) -> None:
        """Take over what `save` returned `elapsed_s` seconds ago, here or elsewhere, as far as less is known here.

        Raises
        ------
        InvalidState
            If the state is damaged; what is remembered has not changed then.
        """
        parts = [
            memory.read(checked_mapping({"reads": {}} | dict(state), name), elapsed_s, now)
            for name, memory in zip(_SAVED, self.loads.remembered, strict=True)
        ]
        for memory, part in zip(self.loads.remembered, parts, strict=True):
            memory.take_over(part, now)

    def costs(self, now: float) -> list[WorkloadCost]:
        """Return the costs of all workloads that any node knows, or that are remembered."""
        return workload_costs(self.loads, now, self._shown(now))

    def workloads(self) -> Workloads:
        """Return how many workloads are known."""
        waiting = {kind.workload for kind in self.waiting.kinds}
        return count_workloads(self.loads, set(self._workloads.values()), waiting)

    def _note_shown(self, workload: str, now: float) -> None:
        self._shown_at.pop(workload, None)
        self._shown_at[workload] = now

    def _shown(self, now: float) -> Container[str] | None:
        """The workloads whose pods have lately shown what they cost; None if the API shows no pods."""
        while self._shown_at and next(iter(self._shown_at.values())) < now - SHOWN_S:
            del self._shown_at[next(iter(self._shown_at))]
        return self._shown_at if self._sees_pods else None

    def _end_uncounted(self, node: str, now: float, *, says: bool) -> None:
        """End the reservations of pods that the node's agent leaves out; as long as it is silent, they hold."""
        self._uncounted.reported(node, now, says=says)
        for uid in self.loads.in_flight_to(node):
            if self._uncounted.left_out(uid, now):
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
        # To compute what all nodes offer takes less than to pick the candidates out of every column.
        offers = self._rooms(kind.workload, ALL, lambda: rows, now, share=self._share())
        reads = self.loads.reads.cost(kind.workload)
        return DemandDecision(nodes, rows, kind.workload, cores, gib, offers, self._stale_after_s, reads=reads)

    def _rooms(self, workload: str, rows: Rows, among: Callable[[], IntArray], now: float, *, share: bool) -> Rooms:
        """What nodes offer a pod of a workload, and what the pod needs there.

        `among` returns all nodes that the pod may go to; most often this need not be known.
        """
        loads, variant = self.loads, self._variant
        cpu, memory, reads = loads.cpu.cost(workload), loads.memory.cost(workload), loads.reads.cost(workload)
        alike, known_gib = loads.local(workload, rows)
        critical = loads.critical(rows)
        if loads.any_critical:
            too_large = critical & (variant.critical_share * loads.cores(rows) <= cpu.mean)
            if too_large.any():
                others = among()
                elsewhere = ~loads.critical(others) & (loads.age_s(others, now) <= self._stale_after_s)
                if not elsewhere.any():
                    critical = critical & ~too_large  # or the pod would wait for ever
        kept = critical if loads.any_critical else None
        load, gap = loads.cpu_load(rows), None
        if self._waits_for_gap(cpu.mean, among):
            gap = cpu.mean > least_wide(variant, loads.cores(rows))
            # Nobody can say of one or two pods whether they are about to stop.
            load = np.where(gap, load + loads.credit(rows), load)
        # Pods that are on their way will soon show whether more of their kind fit.
        share = share and (loads.cpu.knows(workload) or not loads.is_coming(workload))
        cores, lower = loads.cores(rows), loads.lower_level(rows)
        fill_to = level(variant, cores, cpu.mean, share=share, critical=kept, gap=gap, lower=lower)
        return Rooms(
            fill_to - load,
            variant.memory_limit * loads.gib(rows) - loads.memory_load(rows),
            needed_gib(variant, np.maximum(memory.mean, known_gib), memory.variance, alike),
            loads.capacity(rows),
            # A pod that does not fit on an idle node will not fit anywhere better.
            loads.idle(rows) & ~critical,
            critical,
            loads.age_s(rows, now),
            reads_left(loads.reads_room(rows), reads)
            if certainly_reads(variant, reads)
            else loads.constant(rows, np.inf),
        )

    def _waits_for_gap(self, cores: float, among: Callable[[], IntArray]) -> bool:
        """Whether a pod that demands these cores waits for a gap on those of its nodes where it is wide.

        It does not if a narrower pod waits, which would take every gap, nor if hardly any pod of these nodes stops.
        """
        variant, loads, kinds = self._variant, self.loads, self.waiting.kinds
        if cores <= PARALLEL_CORES or len(kinds) > MOST_SUMMED:
            return False
        nodes = among()
        least = float(np.nanmin(least_wide(variant, loads.cores(nodes)), initial=np.inf))
        if any(loads.cpu.cost(kind.workload).mean <= least for kind in kinds):
            return False
        return variant.patience_s * float(np.nansum(loads.freed(nodes))) >= cores

    def _share(self) -> bool:
        return self._sharing.applies(self.loads)

    def _others_fit(self, kind: Kind, now: float) -> bool:
        """Whether a waiting pod of another kind would find room; tries those of each placement that need least."""
        others = [other for other in islice(self.waiting.kinds, MOST_SUMMED) if other != kind]
        tried: dict[tuple[str, str], None] = {}
        for pool in (self.loads.cpu, self.loads.memory):
            least: dict[str, tuple[float, str]] = {}
            for other in others:
                cost = pool.cost(other.workload).mean, other.workload
                least[other.placement] = min(cost, least.get(other.placement, cost))
            tried |= {(placement, workload): None for placement, (_, workload) in least.items()}
        share = self._share()
        return any(
            self._any_fits(workload, self._rows_of(placement), now, share=share)
            for placement, workload in islice(tried, _MOST_TRIED)
        )

    def _any_fits(self, workload: str, rows: IntArray, now: float, *, share: bool) -> bool:
        rooms = self._rooms(workload, rows, lambda: rows, now, share=share)
        return bool(rooms.fits(self._stale_after_s).any())

    def _rows_of(self, placement: str) -> IntArray:
        return self.loads.among(self._candidates.of(placement))

    def _takes_any(self, node: str, now: float) -> bool:
        """Whether a node has room for a pod of one of the kinds that wait, as far as they are tried."""
        loads, variant, row = self.loads, self._variant, self.loads.row(node)
        share = False
        if loads.critical(row):
            share = self._share()
        elif not (loads.idle(row) or loads.capacity(row) >= 1):
            # No kind has room above the higher level. Below the lower level it does not matter whether pods share.
            load, lower = loads.cpu_load(row), loads.lower_level(row)
            if not load < lower:
                if not load < level(variant, loads.cores(row), 0.0, share=True, lower=lower) or not self._share():
                    return False
                share = True
        return any(
            self._rooms(kind.workload, row, partial(self._rows_of, kind.placement), now, share=share).fits(
                self._stale_after_s
            )
            for kind in self._tried_on(node)
        )

    def _tried_on(self, node: str) -> Iterator[Kind]:
        """Return the kinds of waiting pods that are tried on a node: those that have waited the longest, and others."""
        kinds = self.waiting.kinds
        parts: list[Iterable[Kind]] = [kinds]
        if len(kinds) > _MOST_TRIED:
            # Multiples of the golden ratio fill [0, 1) evenly, and so do those that any one node gets of them.
            self._turns += 1
            start = int(self._turns * _GOLDEN % 1 * len(kinds))
            parts = [islice(kinds, MOST_SUMMED), islice(kinds, start, start + MOST_SUMMED)]
        for part in parts:
            allowed = (kind for kind in part if self._candidates.allowed(kind.placement, node))
            yield from islice(allowed, _MOST_TRIED // len(parts))

    def _look(self, node: str, now: float) -> None:
        """Wake refused pods if a node has room for one of them."""
        if not self.waiting:
            return
        fits = self._takes_any(node, now)
        if fits:
            self._holding.room_appeared()
            self.room_appeared += 1
        wanted = bool(self.waiting.refused)
        if self._wake_up is not None and self._wake_up.observe(node, float(fits), now, wanted=wanted):
            row = self.loads.row(node)
            self._wake(node, float(self.loads.cores(row) - self.loads.cpu_load(row)))
