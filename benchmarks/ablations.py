"""The variant `demand` without one of its rules, where no parameter switches the rule off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from carico.arrays import FloatArray, IntArray
from carico.demand.decision import Rooms
from carico.demand.loads import Loads, Rows
from carico.demand.pool import Pool
from carico.demand.regression import Estimate
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DemandVariant
from testbed.simulation.schedulers import demand as simulated


class LoadsWithoutCredit(Loads):
    """Loads from which nothing is subtracted for pods that are about to stop."""

    def cpu_load(self, rows: Rows) -> FloatArray:
        """The load of nodes with a margin for doubt, cores."""
        load: FloatArray = super().cpu_load(rows) + super().credit(rows)
        return load

    def credit(self, rows: Rows) -> FloatArray:
        """Nothing."""
        none: FloatArray = 0.0 * super().credit(rows)
        return none


class LoadsWithoutCritical(Loads):
    """Loads of nodes none of which is kept half idle."""

    def note_critical(self, uid: str, node: str | None) -> None:
        """Treat latency-critical pods as any others."""


class LoadsWithoutPodsInFlight(Loads):
    """Loads that count a pod only when a report does."""

    def place(self, uid: str, workload: str, node: str, now: float) -> None:
        """Forget where a pod goes."""
        self.end(uid)


class LoadsWithoutShowing(Loads):
    """Loads that do not tell that pods will soon show what an unknown workload costs."""

    def is_coming(self, workload: str) -> bool:
        """Return that no pod of the workload is on its way."""
        return False


class WithoutCredit(DemandScheduler):
    """Waits until a report shows that pods have stopped."""

    def __init__(self, variant: DemandVariant, **options: Any) -> None:
        super().__init__(variant, **options)
        self.loads = LoadsWithoutCredit(variant)


class WithoutCritical(DemandScheduler):
    """Ignores which pods are latency-critical."""

    def __init__(self, variant: DemandVariant, **options: Any) -> None:
        super().__init__(variant, **options)
        self.loads = LoadsWithoutCritical(variant)


class WithoutPodsInFlight(DemandScheduler):
    """Goes by reports alone."""

    def __init__(self, variant: DemandVariant, **options: Any) -> None:
        super().__init__(variant, **options)
        self.loads = LoadsWithoutPodsInFlight(variant)


class WithoutShowing(DemandScheduler):
    """Lets pods of unknown workloads share CPUs before the first of them has shown what it costs."""

    def __init__(self, variant: DemandVariant, **options: Any) -> None:
        super().__init__(variant, **options)
        self.loads = LoadsWithoutShowing(variant)


class OwnKnowledge(Pool):
    """Tells a node only what it has learned itself."""

    def __init__(self, first: Estimate, finest: float = 0.0) -> None:
        super().__init__(first, finest)
        self.node: str | None = None
        """The node that asks; without one, what all know together is told."""
        self._told: dict[str, Mapping[str, Estimate]] = {}

    def update(self, node: str, costs: Mapping[str, Estimate]) -> None:
        """Replace what a node has learned."""
        super().update(node, costs)
        self._told[node] = costs

    def cost(self, workload: str) -> Estimate:
        """What a pod of the workload demands, according to the node that asks."""
        if self.node is None:
            return super().cost(workload)
        return self._told.get(self.node, {}).get(workload, self.first)

    def costs(self, workloads: Iterable[str]) -> list[Estimate]:
        """`cost` of several workloads."""
        return list(map(self.cost, workloads))


class LoadsAlone(Loads):
    """The loads of nodes that share nothing."""

    cpu: OwnKnowledge
    memory: OwnKnowledge
    reads: OwnKnowledge

    def __init__(self, variant: DemandVariant) -> None:
        super().__init__(variant)
        self.cpu = OwnKnowledge(self.cpu.first, variant.finest_cores)
        self.memory = OwnKnowledge(self.memory.first, variant.finest_gib)
        self.reads = OwnKnowledge(self.reads.first, variant.finest_reads)

    @contextmanager
    def asked_by(self, node: str | None) -> Iterator[None]:
        """Let a node ask what workloads cost."""
        before = self.cpu.node
        self.cpu.node = self.memory.node = self.reads.node = node
        yield
        self.cpu.node = self.memory.node = self.reads.node = before

    def _sum_up(self, node: str) -> None:
        with self.asked_by(node):
            super()._sum_up(node)


class SchedulerAlone(DemandScheduler):
    """Judges every node by what the node knows by itself.

    Only whether all waiting pods would fit at once, which concerns no single node, is judged by what all know.
    """

    loads: LoadsAlone

    def __init__(self, variant: DemandVariant, **options: Any) -> None:
        super().__init__(variant, **options)
        self.loads = LoadsAlone(variant)

    def _rooms(self, workload: str, rows: Rows, among: Callable[[], IntArray], now: float, *, share: bool) -> Rooms:
        names = dict(zip(self.loads.rows(self.loads.nodes).tolist(), self.loads.nodes, strict=True))
        found = []
        for row in np.atleast_1d(np.arange(self.loads.width)[rows]).tolist():
            with self.loads.asked_by(names.get(row)):
                one = np.array([row], np.intp)
                found.append(super()._rooms(workload, one, among, now, share=share))
        if not found:
            return super()._rooms(workload, rows, among, now, share=share)
        return Rooms(*map(np.concatenate, zip(*found, strict=True)))

    def _share(self) -> bool:
        with self.loads.asked_by(None):
            return super()._share()


CORES: dict[str, type[DemandScheduler]] = {
    "": DemandScheduler,
    "pooling": SchedulerAlone,
    "credit": WithoutCredit,
    "critical": WithoutCritical,
    "in-flight": WithoutPodsInFlight,
    "showing": WithoutShowing,
}
"""The scheduler's core without a rule, by the rule's name."""


def without(rule: str) -> Any:
    """Return a context in which simulated clusters that are made have a scheduler without a rule."""
    return mock.patch.object(simulated, "DemandScheduler", CORES[rule])
