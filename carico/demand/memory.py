"""What pods of a workload used to cost, long after every node has forgotten it: a nightly job is no stranger. Pure.

A node forgets what it has learned within minutes, because pods may change. What is remembered here is the assumption
with which a workload begins when it returns, in place of the one about unknown workloads. The workload is doubted less
than an unknown one then, but still so much that the first pods that are observed count for more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from carico.arrays import finite
from carico.demand.regression import Estimate
from carico.demand.workload import check_saved_workloads
from carico.errors import InvalidInput, InvalidState

MOST_WORKLOADS = 10_000
"""The most workloads that are remembered; then the one that has not run for longest is forgotten."""
_MOST_WEIGHT = 20.0
"""Experience beyond this weight does not count, so that a workload that has changed is learned anew."""
_LEAST_WEIGHT = 0.01
"""A workload with less experience is forgotten."""


class _Known(NamedTuple):
    """What is remembered of a workload."""

    mean: float
    variance: float
    """As nodes knew it when it last ran."""
    weight: float
    at: float
    """When it was last noted."""


class Memory:
    """The remembered costs of one resource.

    Parameters
    ----------
    first : Estimate
        What is assumed about an unknown workload.
    returning : float
        The variance of a workload that was known well, when it returns, as a share of the variance of an unknown one.
    learned_s : float
        After how many seconds of well-known cost the experience weighs as much as the assumption.
    remember_s : float
        Time constant with which experience fades, seconds.

    Examples
    --------
    >>> memory = Memory(Estimate(1.0, 1.0), returning=0.25, learned_s=30.0, remember_s=86400.0)
    >>> memory.note("pi", Estimate(0.5, 0.0), elapsed_s=90.0, now=90.0)
    >>> memory.cost("pi"), memory.cost("another")
    (Estimate(mean=0.625, variance=0.4375), Estimate(mean=1.0, variance=1.0))
    """

    def __init__(self, first: Estimate, returning: float, learned_s: float, remember_s: float) -> None:
        self._first = first
        self._returning = returning
        self._learned_s = learned_s
        self._remember_s = remember_s
        self._known: dict[str, _Known] = {}
        """By workload; the one that was noted longest ago comes first."""
        self._now = 0.0

    def __contains__(self, workload: str) -> bool:
        """Whether a workload is remembered."""
        return workload in self._known

    @property
    def workloads(self) -> list[str]:
        """The workloads that are remembered."""
        return list(self._known)

    def idle_s(self, workload: str, now: float) -> float:
        """Seconds since a pod of a remembered workload ran."""
        return max(now - self._known[workload].at, 0.0)

    def note(self, workload: str, seen: Estimate, elapsed_s: float, now: float) -> None:
        """Note what nodes know of a workload whose pods have run for the last `elapsed_s` seconds.

        Parameters
        ----------
        workload : str
        seen : Estimate
            What nodes have learned, beginning with the assumption about unknown workloads.
        elapsed_s, now : float
            Seconds.
        """
        self._now = max(now, self._now)
        share = min(seen.variance / self._first.variance, 1.0)
        if share > 1 - _LEAST_WEIGHT:
            return
        mean = max((seen.mean - self._first.mean * share) / (1 - share), 0.0)
        before, weight = self._faded(workload)
        more = (1 - share) * elapsed_s / self._learned_s
        self._known.pop(workload, None)
        if weight + more > 0:
            mean = (weight * before + more * mean) / (weight + more)
            self._known[workload] = _Known(mean, seen.variance, min(weight + more, _MOST_WEIGHT), now)
        if len(self._known) > MOST_WORKLOADS:
            del self._known[next(iter(self._known))]

    def still_runs(self, workload: str, now: float) -> None:
        """Note that pods of a workload run, of which nothing new is known."""
        known = self._known.pop(workload, None)
        if known is not None:
            self._known[workload] = known._replace(at=max(now, known.at))

    def forget(self, now: float) -> None:
        """Let time pass, and drop the workloads of which hardly anything is remembered."""
        self._now = max(now, self._now)
        for workload in [name for name in self._known if self._faded(name)[1] < _LEAST_WEIGHT]:
            del self._known[workload]

    def cost(self, workload: str) -> Estimate:
        """What is assumed about a workload before its pods are observed."""
        if workload not in self._known:
            return self._first
        mean, weight = self._faded(workload)
        return Estimate(
            (self._first.mean + weight * mean) / (1 + weight),
            self._first.variance * (1 + weight * self._returning) / (1 + weight),
        )

    def known(self, workload: str) -> Estimate:
        """What a remembered workload used to cost."""
        known = self._known[workload]
        return Estimate(known.mean, known.variance)

    def save(self, now: float) -> dict[str, Any]:
        """Return everything that is remembered, as JSON values."""
        return {name: [*known[:3], max(now - known.at, 0.0)] for name, known in self._known.items()}

    def read(self, state: Mapping[str, Any], elapsed_s: float, now: float) -> dict[str, _Known]:
        """Check what `save` returned `elapsed_s` seconds ago, and return it for `take_over`; nothing changes.

        Raises
        ------
        InvalidState
            If the state is damaged.
        """
        if len(state) > MOST_WORKLOADS:
            raise InvalidState(
                f"the saved state remembers {len(state)} workloads, at most {MOST_WORKLOADS} are remembered: "
                f"it is damaged; delete it"
            )
        check_saved_workloads(state)
        known = {}
        for workload, values in state.items():
            try:
                numbers = finite(workload, values, low=0.0, high=1e9)
            except InvalidInput as error:
                raise InvalidState(f"the saved state is damaged, delete it: {error}") from error
            if numbers.shape != (4,):
                shape = f"{workload} has shape {numbers.shape}, wanted (4,)"
                raise InvalidState(f"{shape}: the saved state is damaged; delete it")
            mean, variance, weight, idle_s = numbers.tolist()
            known[workload] = _Known(mean, variance, min(weight, _MOST_WEIGHT), now - elapsed_s - idle_s)
        return known

    def take_over(self, others: Mapping[str, _Known], now: float) -> None:
        """Remember what another memory knows and this one does not; of both, the one with more experience is right."""
        self._now = max(now, self._now)
        for workload, known in others.items():
            if self._weight(known) > self._faded(workload)[1]:
                self._known[workload] = known
        by_time = sorted(self._known.items(), key=lambda item: item[1].at)
        self._known = dict(by_time[-MOST_WORKLOADS:])

    def _faded(self, workload: str) -> tuple[float, float]:
        known = self._known.get(workload)
        if known is None:
            return self._first.mean, 0.0
        return known.mean, self._weight(known)

    def _weight(self, known: _Known) -> float:
        return known.weight * math.exp(-max(self._now - known.at, 0.0) / self._remember_s)
