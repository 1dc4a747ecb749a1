"""The core of the scheduler of the variant `demand`: where a pod goes, and how long its answer waits for room. Pure.

Nodes are filled to a level of load (`filling`). The one with the most room takes the pod. If no node has room, and no
other pod that waits could use the time, the answer is held for a moment: room appears many times a second, but a pod
that was refused comes back after a second at the earliest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.demand.filling import cpu_fits, level, memory_fits
from carico.demand.loads import Loads
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport
from carico.demand.settings import DemandVariant
from carico.demand.waiting import Waiting
from carico.errors import NotReady
from carico.scheduling.wake_up import WakeUp

STALE_AFTER_S = 5.0
"""A report that is older is not believed: agents report once a second."""
FORGOTTEN_AFTER_S = 600.0


class Answer(NamedTuple):
    """What is answered about a pod."""

    node: str | None
    """Where it goes; None if no node has room."""
    hold_s: float = 0.0
    """If no node has room: ask again when anything has changed, or after this time; 0 if the pod is refused."""


class DemandScheduler:
    """Decides about pods; times are seconds on one clock, and never decrease from call to call.

    Parameters
    ----------
    variant : DemandVariant
    wake_up : WakeUp, optional
        Without it refused pods are never woken.
    wake : callable, optional
        Called with a node that has room again when refused pods should be tried again because of it.
    """

    def __init__(
        self,
        variant: DemandVariant,
        wake_up: WakeUp | None = None,
        wake: Callable[[str], None] = lambda node: None,
    ) -> None:
        self._variant = variant
        self._wake_up = wake_up
        self._wake = wake
        self.loads = Loads(variant)
        self._bound: dict[str, str] = {}
        """The node of every pod that the API shows as bound and not over, by UID."""
        self.waiting = Waiting()
        self._held: tuple[str, float] | None = None
        """The pod whose answer waits, and until when."""
        self._may_hold = True

    def pod_waits(self, uid: str, workload: str) -> None:
        """Note that a pod was created, and has no node yet."""
        if uid not in self._bound:
            self.waiting.add(uid, workload)

    def filter(self, uid: str, workload: str, nodes: Sequence[str], now: float) -> Answer:
        """Decide about a pod; if a node has room, the pod is on its way there from now on.

        Raises
        ------
        NotReady
            If the pod is bound already; nothing has changed then.
        """
        if uid in self._bound:
            raise NotReady(
                f"the pod {uid} is bound to {self._bound[uid]} already: wait until the watch on pods shows it"
            )
        self.loads.end(uid)
        self.waiting.add(uid, workload)
        self.waiting.refused.discard(uid)
        rows = self.loads.rows(nodes)
        room, fits = self._room(workload, rows, now)
        if fits.any():
            node = nodes[int(np.where(fits, room, -np.inf).argmax())]
            self.waiting.remove(uid)
            self.loads.place(uid, workload, node, now)
            self._held, self._may_hold = None, True
            return Answer(node)
        hold_s = self._hold_s(uid, workload, len(nodes), now)
        if not hold_s:
            self.waiting.refused.add(uid)
        return Answer(None, hold_s)

    def report(self, report: DemandReport, now: float) -> None:
        """Take in a node's report."""
        self.loads.report(report, now)
        self._look(report.node, now)

    def pod_changed(self, uid: str, workload: str, node: str, ended: bool, now: float) -> None:
        """Take in what the API shows of a pod: the node that it is bound to, empty if none, and whether it is over."""
        if ended:
            self.pod_gone(uid, now)
        elif node:
            self.waiting.remove(uid)
            self._bound[uid] = node
            way = self.loads.under_way(uid)
            if way is None or way.node != node:
                self.loads.place(uid, workload, node, now)

    def pod_gone(self, uid: str, now: float) -> None:
        """Take in that a pod is over or deleted."""
        self.waiting.remove(uid)
        node = self._bound.pop(uid, None)
        if node is None:
            node = self.loads.end(uid)
        else:
            self.loads.over(uid, node)
        if node is not None:
            self._look(node, now)

    def tick(self, now: float) -> None:
        """Forget nodes that were not heard of for long."""
        for node in self.loads.silent(now, FORGOTTEN_AFTER_S):
            self.loads.forget(node)
            if self._wake_up is not None:
                self._wake_up.forget(node)

    def cost(self, workload: str) -> tuple[Estimate, Estimate]:
        """What a pod of a workload demands, as far as all nodes know: cores, GiB."""
        return self.loads.cpu.cost(workload), self.loads.memory.cost(workload)

    def _room(self, workload: str, rows: IntArray, now: float) -> tuple[FloatArray, BoolArray]:
        """How far nodes are below their level, cores, and whether a pod of the workload fits there."""
        loads, variant = self.loads, self._variant
        cpu, memory = self.cost(workload)
        room = level(variant, loads.cores(rows), cpu.mean, all_fit=self._all_fit()) - loads.cpu_load(rows)
        on_their_way = loads.on_their_way_to(workload, rows)
        running, known_gib = loads.local(workload, rows)
        fits = cpu_fits(variant, room, cpu, on_their_way)
        room_gib = variant.memory_limit * loads.gib(rows) - loads.memory_load(rows)
        gib = np.maximum(memory.mean, known_gib)
        fits &= memory_fits(variant, room_gib, gib, memory.variance, on_their_way + running)
        fits |= loads.idle(rows)  # whatever it needs, it will not fit anywhere better
        fits &= loads.age_s(rows, now) <= STALE_AFTER_S
        return room, fits

    def _all_fit(self) -> bool:
        """Whether all pods that wait fit below the higher level; those that are kept out of it do not."""
        variant, rows = self._variant, self.loads.all_rows
        size = self.loads.cores(rows)
        widest = variant.wide * float(size.max(initial=0.0))
        wanted = 0.0
        for workload, number in self.waiting.workloads.items():
            cores = self.loads.cpu.cost(workload)
            if cores.mean > widest:
                return False
            wanted += number * (cores.mean + variant.caution * cores.variance)
        room = variant.threads_per_core * size - self.loads.cpu_load(rows)
        return wanted <= float(np.maximum(room, 0.0).sum())

    def _hold_s(self, uid: str, workload: str, candidates: int, now: float) -> float:
        """How long the answer about a pod without room may wait."""
        if self._held is not None and self._held[0] == uid:
            hold_s = self._held[1] - now
            if hold_s > 1e-6 and not self._others_fit(workload, now):
                return hold_s
            self._held, self._may_hold = None, False
            return 0.0
        if not self._may_hold or candidates < len(self.loads) or self._others_fit(workload, now):
            return 0.0
        self._held = uid, now + self._variant.hold_s
        return self._variant.hold_s

    def _others_fit(self, workload: str, now: float) -> bool:
        """Whether a pod of the cheapest other workload that waits would find room."""
        others = [name for name in self.waiting.workloads if name != workload]
        if not others:
            return False
        cheapest = min(others, key=lambda name: self.loads.cpu.cost(name).mean)
        return bool(self._room(cheapest, self.loads.all_rows, now)[1].any())

    def _look(self, node: str, now: float) -> None:
        """Have refused pods woken if a node has room for one of them."""
        if not self.waiting:
            return
        rows = self.loads.rows([node])
        fits = any(self._room(workload, rows, now)[1][0] for workload in self.waiting.workloads)
        if fits:
            self._may_hold = True
        wanted = bool(self.waiting.refused)
        if self._wake_up is not None and self._wake_up.observe(node, float(fits), now, wanted=wanted):
            self._wake(node)
