"""How much memory pods hold at their peak, learned from what they hold now. Pure.

Pods hold less memory before and after their peak, but have to fit at their peak. A workload counts as unknown until the
memory of its pods has stopped growing for a while, and again whenever it grows beyond the peak that is known. Until
then its peak is doubted as that of an unknown one, and that of large pods in proportion to what they hold already. As
long as pods hold less than the peak, they are no witnesses of it: they may be young, and still grow. Pods of all ages
hold less on average than each of them does at its peak, all the time; so where pods are read one by one, the peaks of
those that have ended count, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from carico.demand.regression import BASELINE_VARIANCE, Estimate
from carico.errors import InvalidState
from carico.saved import checked_array

RISE = 1.1
RISE_GIB = 0.02
"""Memory has grown if it is more than `RISE` times the earlier memory and `RISE_GIB`."""
_GROWS_S = 30.0
"""Memory that is read pod by pod grows if it would have grown so much within this time, seconds."""
_ENDED = 0.2
"""Weight of a pod that has ended in the mean over those before."""
_ASSUMED = 0.5
"""With more than this share of the variance about an unknown workload, memory is rather assumed than observed."""


@dataclass
class _Peak:
    """What is known about a workload."""

    gib: float
    """The peak."""
    level: float
    """Memory when it was last found to have grown, or the least memory since then."""
    held: float
    """Memory at the latest observation."""
    assumed: bool = True
    """Whether that was rather an assumption."""
    rose_at: float = -math.inf
    settled: bool = False
    """Whether the peak is known: memory has stayed constant at it."""
    variance: float = math.inf
    """Variance of the peak, as it was known then."""
    read: bool = False
    """Whether it was read how fast pods grow."""
    of_ended: float = 0.0
    """Mean over pods that have ended of the most that they held."""


class Peaks:
    """The peaks of the workloads of a node.

    Parameters
    ----------
    first : Estimate
        What is assumed about an unknown workload, GiB.
    doubt : float
        Standard deviation of a peak that is still to come, as a share of what pods hold; that of `first` is the least.
    growth_s : float
        How long a workload counts as unknown after its pods have grown, seconds.
    peak_s : float
        Time constant with which a peak fades to what pods hold now, seconds.
    """

    def __init__(self, first: Estimate, doubt: float, growth_s: float, peak_s: float) -> None:
        self._first = first
        self._doubt = doubt
        self._growth_s = growth_s
        self._peak_s = peak_s
        self._peaks: dict[str, _Peak] = {}
        self._costs: dict[str, Estimate] = {}
        self._observed_at = -math.inf

    @property
    def workloads(self) -> list[str]:
        """The workloads about which anything is known."""
        return list(self._peaks)

    def cost(self, workload: str) -> Estimate:
        """Memory that a pod of a workload holds at its peak, GiB."""
        return self._costs.get(workload, self._first)

    def observe(self, held: Mapping[str, Estimate], fresh: Collection[str], at: float) -> None:
        """Take in the memory of a pod of each workload now, GiB; the pods of `fresh` workloads have just started."""
        elapsed_s, self._observed_at = at - self._observed_at, at
        for workload, (gib, variance) in held.items():
            peak = self._peaks.setdefault(workload, _Peak(0.0, gib, gib))
            if _exceeds(gib, peak.level):
                peak.level = gib
                if not peak.read or (peak.settled and gib > peak.gib):
                    peak.rose_at = at
                    peak.settled &= gib <= peak.gib
            peak.level = min(peak.level, gib)
            if (workload in fresh or peak.assumed) and not peak.settled:
                peak.gib = gib  # an assumption so far, not an observation
            peak.assumed = variance > _ASSUMED * self._first.variance
            may_grow = workload in fresh or at - peak.rose_at < self._growth_s
            if gib < peak.held or not may_grow:  # while pods grow, their peak is still to come
                least = max(gib, peak.of_ended)
                peak.gib = least + math.exp(-elapsed_s / self._peak_s) * max(peak.gib - least, 0.0)
            if not may_grow and not peak.assumed and not _exceeds(peak.gib, gib):
                peak.settled, peak.variance = True, variance
            elif not peak.settled:
                peak.gib = max(peak.gib, gib)
            peak.held = gib
            if peak.settled:
                self._costs[workload] = Estimate(max(peak.gib, gib), max(peak.variance, variance))
            else:
                self._costs[workload] = self._unsettled(peak.gib)

    def _unsettled(self, gib: float) -> Estimate:
        """Return what a pod holds at a peak that is still to come, if pods have held so much already."""
        return Estimate(max(gib, self._first.mean), max(self._first.variance, (self._doubt * gib) ** 2))

    def is_settled(self, workload: str) -> bool:
        """Return whether the peak of a workload is known."""
        return workload in self._peaks and self._peaks[workload].settled

    def was_read(self, workload: str) -> bool:
        """Return whether it was read how fast pods of a workload grow."""
        return workload in self._peaks and self._peaks[workload].read

    def read(self, workload: str, gib: float, gib_per_s: float, at: float) -> None:
        """Take in what was read of running pods on average: memory that they hold, and how fast it grows, GiB and s."""
        peak = self._peaks.get(workload)
        if peak is not None:
            peak.read = True
            # Pods that hold less than ended ones did may grow as far as those.
            if gib > peak.of_ended and _exceeds(gib + _GROWS_S * gib_per_s, gib):
                peak.rose_at = at

    def ended(self, workload: str, gib: float) -> None:
        """Take in that a pod has ended, and the most that it was seen to hold, GiB."""
        peak = self._peaks.get(workload)
        if peak is not None:
            peak.of_ended += (_ENDED if peak.of_ended else 1.0) * (gib - peak.of_ended)

    def save(self) -> dict[str, Any]:
        """Return everything that was learned, as JSON values."""
        return {
            workload: [peak.gib, peak.level, float(peak.settled), *self.cost(workload), peak.of_ended]
            for workload, peak in self._peaks.items()
        }

    def restore(self, state: Mapping[str, Any], at: float, most: float) -> None:
        """Continue at a time from what `save` returned; whether the names are those of workloads is not checked.

        Parameters
        ----------
        state : mapping
        at : float
            Seconds.
        most : float
            No peak can be higher, GiB.

        Raises
        ------
        InvalidState
            If the state is damaged; nothing has changed then.
        """
        found = {workload: _saved(state, workload) for workload in state}
        for workload, (gib, level, settled, mean, variance, of_ended) in found.items():
            if not (
                all(0 <= memory <= most for memory in (gib, level, mean, of_ended))
                and settled in (0, 1)
                and 0 <= variance <= max(BASELINE_VARIANCE, self._unsettled(most).variance)
            ):
                raise InvalidState(
                    f"pods of {workload!r:.300} must have a peak in [0, {most:g}] GiB on this node, with a variance, "
                    f"got {found[workload]}: the saved state is damaged; delete it"
                )
        self._peaks = {
            workload: _Peak(gib, level, level, settled=bool(settled), variance=variance, of_ended=of_ended)
            for workload, (gib, level, settled, _, variance, of_ended) in found.items()
        }
        self._observed_at = at
        self._costs = {workload: Estimate(mean, variance) for workload, (_, _, _, mean, variance, _) in found.items()}

    def forget(self, kept: Collection[str]) -> None:
        """Drop the workloads that are not among `kept`."""
        for workload in self._peaks.keys() - set(kept):
            del self._peaks[workload], self._costs[workload]


def _saved(state: Mapping[str, Any], workload: str) -> list[float]:
    """Return what is saved of a workload."""
    if isinstance(state[workload], list) and len(state[workload]) == 5:
        state = {workload: [*state[workload], 0.0]}  # an earlier version saves nothing about pods that have ended
    saved: list[float] = checked_array(state, workload, (6,)).tolist()
    return saved


def _exceeds(gib: float, earlier: float) -> bool:
    """Whether memory is more than an earlier one, noise and small changes aside."""
    return gib > RISE * earlier + RISE_GIB
