"""How much memory pods hold at their peak, learned from what they hold now. Pure.

Pods hold less memory before and after their peak, but have to fit at their peak. A workload counts as unknown until the
memory of its pods has stopped growing for a while, and again whenever it grows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from carico.demand.regression import Estimate
from carico.errors import InvalidState
from carico.saved import checked_array

RISE = 1.1
RISE_GIB = 0.02
"""Memory has grown if it exceeds `RISE` times the earlier memory by more than `RISE_GIB`."""


@dataclass
class _Peak:
    """What is known about a workload."""

    gib: float
    """The peak."""
    level: float
    """Memory when it was last found to have grown, or the least memory since then."""
    observed_at: float
    rose_at: float = -math.inf
    settled: bool = False


class Peaks:
    """The peaks of the workloads of a node.

    Parameters
    ----------
    first : Estimate
        What is assumed about an unknown workload, GiB.
    growth_s : float
        How long a workload counts as unknown after its pods have grown, seconds.
    peak_s : float
        Time constant with which a peak fades to what pods hold now, seconds.
    """

    def __init__(self, first: Estimate, growth_s: float, peak_s: float) -> None:
        self._first = first
        self._growth_s = growth_s
        self._peak_s = peak_s
        self._peaks: dict[str, _Peak] = {}
        self._costs: dict[str, Estimate] = {}

    @property
    def workloads(self) -> list[str]:
        """The workloads about which anything is known."""
        return list(self._peaks)

    def cost(self, workload: str) -> Estimate:
        """Memory that a pod of a workload holds at its peak, GiB."""
        return self._costs.get(workload, self._first)

    def observe(self, held: Mapping[str, Estimate], fresh: Collection[str], at: float) -> None:
        """Take in the memory of a pod of each workload now, GiB; the pods of `fresh` workloads have just started."""
        for workload, (gib, variance) in held.items():
            peak = self._peaks.setdefault(workload, _Peak(0.0, gib, at))
            if gib > RISE * peak.level + RISE_GIB:
                peak.level, peak.rose_at = gib, at
            peak.level = min(peak.level, gib)
            if workload in fresh and not peak.settled:
                peak.gib = gib  # an assumption so far, not an observation
            kept = math.exp(-(at - peak.observed_at) / self._peak_s)
            peak.gib, peak.observed_at = gib + kept * max(peak.gib - gib, 0.0), at
            if workload in fresh or at - peak.rose_at < self._growth_s:
                least = peak.gib if peak.settled else max(peak.gib, self._first.mean)
                self._costs[workload] = Estimate(least, self._first.variance)
            else:
                peak.settled = True
                self._costs[workload] = Estimate(peak.gib, variance)

    def save(self) -> dict[str, Any]:
        """Return everything that was learned, as JSON values."""
        return {
            workload: [peak.gib, peak.level, float(peak.settled), *self.cost(workload)]
            for workload, peak in self._peaks.items()
        }

    def restore(self, state: Mapping[str, Any], at: float) -> None:
        """Continue at a time from what `save` returned.

        Raises
        ------
        InvalidState
            If the state is damaged; nothing has changed then.
        """
        found = {workload: checked_array(state, workload, (5,)).tolist() for workload in state}
        if any(min(numbers) < 0 for numbers in found.values()):
            raise InvalidState("a peak below 0 GiB: the saved state is damaged; delete it")
        self._peaks = {
            workload: _Peak(gib, level, at, settled=bool(settled))
            for workload, (gib, level, settled, _, _) in found.items()
        }
        self._costs = {workload: Estimate(mean, variance) for workload, (_, _, _, mean, variance) in found.items()}

    def forget(self, kept: Collection[str]) -> None:
        """Drop the workloads that are not among `kept`."""
        for workload in self._peaks.keys() - set(kept):
            del self._peaks[workload], self._costs[workload]
