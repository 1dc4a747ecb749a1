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
        usable = self._candidates.usable
        everywhere = loads.demanding_among(usable)
        in_all, soon = sum(wanted.values()), variant.patience_s * float(loads.freed(everywhere).sum())
        if soon >= in_all or not self._take(everywhere, in_all, max(widest.values(), default=0.0), loads):
            return False
        for placement, cores_wanted in wanted.items():
            nodes = self._candidates.of(placement)
            if not nodes or nodes == usable:
                continue
            if not self._take(loads.demanding_among(nodes), cores_wanted, widest[placement], loads):
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


def _believed(cores: FloatArray) -> FloatArray:
    """Return the sizes of nodes as they are believed where something is decided for all nodes."""
    if cores.size < _FEWEST:
        return cores
    place = int(_ABOVE * (cores.size - 1))
    believed: FloatArray = np.minimum(cores, _MOST_TIMES * np.partition(cores, place)[place])
    return believed
