"""Whether pods that wait should share CPUs rather than wait on, so that nodes are filled to the higher level. Pure.

They should if all of them fit below the higher level, on the nodes that they may go to, and if too few pods stop for
them to be placed soon otherwise: then no pod waits. Pods that may not be placed above the lower level do not fit.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from carico.arrays import FloatArray, IntArray
from carico.demand.candidates import Candidates
from carico.demand.loads import Loads
from carico.demand.settings import DemandVariant
from carico.demand.waiting import Waiting

MOST_SUMMED = 100
"""If more kinds of pods wait, it is not computed whether all of them fit at once."""
_MOST_TIMES = 16.0
_ABOVE = 0.75
_FEWEST = 4
"""Where it is decided for all nodes whether pods share CPUs, a node counts as at most 16 times as large as three
quarters of the nodes are: one that claims to be huge must not overload all others. With fewer nodes it is not told."""


class Sharing:
    """Whether the higher level applies.

    Parameters
    ----------
    variant : DemandVariant
    waiting : Waiting
        The pods that wait, now and later.
    candidates : Candidates
        Where they may go.
    """

    def __init__(self, variant: DemandVariant, waiting: Waiting, candidates: Candidates) -> None:
        self._variant = variant
        self._waiting = waiting
        self._candidates = candidates
        self._generation = -1
        self._demanding: dict[frozenset[str], IntArray] = {}
        """Cache for this generation of loads: see `_demanding_among`."""

    def applies(self, loads: Loads) -> bool:
        """Return whether all waiting pods fit below the higher level, and would otherwise wait for long."""
        kinds = self._waiting.kinds
        if len(kinds) > MOST_SUMMED:
            return False
        variant = self._variant
        wanted: defaultdict[str, float] = defaultdict(float)
        widest: defaultdict[str, float] = defaultdict(float)
        for kind, number in kinds.items():
            cores = loads.cpu.cost(kind.workload)
            wanted[kind.placement] += number * (cores.mean + variant.caution * cores.variance)
            widest[kind.placement] = max(widest[kind.placement], cores.mean)
        everywhere = self._demanding_among(self._candidates.usable, loads)
        in_all, soon = sum(wanted.values()), variant.patience_s * float(loads.freed(everywhere).sum())
        if soon >= in_all or not self._take(everywhere, in_all, max(widest.values(), default=0.0), loads):
            return False
        for placement, cores_wanted in wanted.items():
            rows = self._demanding_among(self._candidates.set_of(placement), loads)
            if rows is not everywhere and not self._take(rows, cores_wanted, widest[placement], loads):
                return False
        return True

    def _take(self, rows: IntArray, cores: float, widest: float, loads: Loads) -> bool:
        """Whether nodes have room for this many cores below the higher level, and may take pods of `widest` cores."""
        variant = self._variant
        if loads.any_critical:
            rows = rows[~loads.critical(rows)]
        size = _believed(loads.cores(rows))
        if widest > variant.wide * float(size.max(initial=0.0)):
            return False
        room = variant.threads_per_core * size - loads.cpu_load(rows)
        return cores <= float(np.maximum(room, 0.0).sum())

    def _demanding_among(self, nodes: frozenset[str], loads: Loads) -> IntArray:
        """The rows of those of these nodes that report their demand; of all such nodes if none are given."""
        if self._generation != loads.generation or len(self._demanding) > MOST_SUMMED:
            self._generation = loads.generation
            self._demanding.clear()
        rows = self._demanding.get(nodes)
        if rows is None:
            found = [node for node in loads.demanding if node in nodes] if nodes else loads.demanding
            rows = self._demanding[nodes] = loads.rows(found)
        return rows


def _believed(cores: FloatArray) -> FloatArray:
    """Return the sizes of nodes as they are believed where something is decided for all nodes."""
    if cores.size < _FEWEST:
        return cores
    place = int(_ABOVE * (cores.size - 1))
    believed: FloatArray = np.minimum(cores, _MOST_TIMES * np.partition(cores, place)[place])
    return believed
