"""The difference between a candidate and a reference: its size, its 95 % interval, and how likely chance explains it.

The repetition is the unit, never the pod: pods of one repetition share their cluster and are not independent. On
simulated clusters equal seeds give equal pods and conditions, and on real ones schedulers run in turns, so repetitions
of the same seeds are compared in pairs; what drifts from turn to turn cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from carico.arrays import FloatArray
from testbed.comparison import LEAST
from testbed.errors import ResultsError


@dataclass(frozen=True)
class Difference:
    """How the figures of a candidate differ from those of a reference."""

    effect: float
    """Candidate over reference (geometric means), or candidate minus reference (means); NaN if a side is empty."""
    low: float
    high: float
    """95 % interval of the effect, by Student's t; infinite below `LEAST` repetitions."""
    p_value: float
    """Probability of such an effect or a larger one if nothing differs; before any correction."""
    n: tuple[int, int]
    """Repetitions of the reference and of the candidate."""
    paired: bool
    relative: bool = True
    """Whether the effect is a ratio."""
    error: float = math.inf
    """Standard error of the effect, of its logarithm if it is a ratio."""
    degrees: float = math.nan
    """Degrees of freedom of that error."""

    @property
    def neutral(self) -> float:
        """The effect if nothing differs."""
        return 1.0 if self.relative else 0.0

    @property
    def enough(self) -> bool:
        """Whether both sides have enough repetitions."""
        return min(self.n) >= LEAST

    def exceeds(self, limit: float) -> float:
        """Return the probability of such an effect or a larger one if the true effect is at most the limit."""
        return self._beyond(limit, 1.0)

    def falls_below(self, limit: float) -> float:
        """Return the probability of such an effect or a smaller one if the true effect is at least the limit."""
        return self._beyond(limit, -1.0)

    def _beyond(self, limit: float, sign: float) -> float:
        if not self.enough or math.isnan(self.effect):
            return 1.0
        if not math.isfinite(self.error):  # of what did not complete
            return self.p_value / 2.0 if sign * (self.effect - limit) > 0 else 1.0
        effect, limit = (math.log(value) if self.relative else value for value in (self.effect, limit))
        if self.error == 0.0:
            return 0.0 if sign * (effect - limit) > 1e-9 else 1.0
        from scipy.special import stdtr

        return float(stdtr(self.degrees, sign * (limit - effect) / self.error))

    @property
    def repetitions(self) -> str:
        """The number of repetitions as people write it."""
        return f"{self.n[0]}" if self.paired or self.n[0] == self.n[1] else f"{self.n[0]} and {self.n[1]}"

    def __str__(self) -> str:
        n = self.repetitions
        if not self.enough:
            return f"{self.effect:.2f}, n = {n} is too small for an interval"
        return f"{self.effect:.2f} [{self.low:.2f}, {self.high:.2f}], n = {n}"


def difference(reference: Mapping[int, float], candidate: Mapping[int, float], *, relative: bool = True) -> Difference:
    """Compare the figures of repetitions, by seed.

    Parameters
    ----------
    reference, candidate : mapping of int to float
        One figure for each repetition, by seed. If both have the same seeds, repetitions are compared in pairs, else by
        Welch's test.
    relative : bool
        Whether the effect is a ratio, of positive figures. Otherwise it is a difference.

    Raises
    ------
    ResultsError
        If a figure is not finite, or a ratio is asked for and a figure is not positive.

    Examples
    --------
    >>> print(difference({1: 100.0, 2: 102.0, 3: 98.0}, {1: 111.0, 2: 112.0, 3: 107.0}))
    1.10 [1.08, 1.12], n = 3
    """
    for figure in (*reference.values(), *candidate.values()):
        if not math.isfinite(figure) or (relative and figure <= 0):
            kind = "positive numbers" if relative else "numbers"
            raise ResultsError(f"only {kind} can be compared, got {figure}")
    paired = reference.keys() == candidate.keys()
    seeds = sorted(reference)
    one, other = (
        np.array([figures[seed] for seed in (seeds if paired else figures)], dtype=np.float64)
        for figures in (reference, candidate)
    )
    if relative:
        one, other = np.log(one), np.log(other)
    n = (one.size, other.size)
    if not min(n):
        return Difference(math.nan, -math.inf, math.inf, 1.0, n, paired, relative)
    effect = float((other - one).mean() if paired else other.mean() - one.mean())
    error, degrees = math.inf, math.nan
    half, p_value = math.inf, 1.0
    if min(n) >= LEAST:
        error, degrees = _error([other - one] if paired else [one, other])
        half, p_value = _students_t(effect, error, degrees)
    low, high = effect - half, effect + half
    if relative:
        effect, low, high = math.exp(effect), math.exp(low), math.exp(high) if high < 700 else math.inf
    return Difference(effect, low, high, p_value, n, paired, relative, error, degrees)


def in_turns(reference: Sequence[float], candidate: Sequence[float]) -> Difference:
    """Compare positive figures of repetitions that ran in turns, pair by pair, as a ratio.

    Raises
    ------
    ResultsError
        If the numbers of repetitions differ, or a figure is not positive.

    Examples
    --------
    >>> print(in_turns([10.0, 12.0], [11.0, 12.0]))
    1.05, n = 2 is too small for an interval
    """
    if len(reference) != len(candidate):
        raise ResultsError(
            f"repetitions in turns are compared in pairs, got {len(reference)} of the reference and {len(candidate)} "
            f"of the candidate: run both equally often"
        )
    return difference(dict(enumerate(reference)), dict(enumerate(candidate)))


def completion_difference(reference: Mapping[int, float | None], candidate: Mapping[int, float | None]) -> Difference:
    """Compare how often something completed at all, by Barnard's exact test.

    Parameters
    ----------
    reference, candidate : mapping of int to float or None
        One time for each repetition, by seed; None where it did not complete.

    Returns
    -------
    Difference
        Its effect is infinite if the candidate completed less often, 0 if more often, NaN if equally often.

    Examples
    --------
    >>> found = completion_difference({1: 9.0, 2: 9.0, 3: 9.0}, {1: None, 2: None, 3: None})
    >>> found.effect, round(found.p_value, 3)
    (inf, 0.031)
    """
    done, of = zip(
        *((sum(time is not None for time in side.values()), len(side)) for side in (reference, candidate)), strict=True
    )
    n = (of[0], of[1])
    share = [count / max(number, 1) for count, number in zip(done, of, strict=True)]
    effect = math.nan if share[0] == share[1] else math.inf if share[1] < share[0] else 0.0
    p_value = 1.0
    if min(n) >= LEAST and not math.isnan(effect):
        from scipy.stats import barnard_exact  # takes long to import

        p_value = float(barnard_exact([done, [number - count for count, number in zip(done, n, strict=True)]]).pvalue)
    return Difference(effect, -math.inf, math.inf, p_value, n, paired=False)


def _error(samples: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the standard error of a mean, or of the difference of two (Welch), and its degrees of freedom."""
    squares = [float(each.var(ddof=1)) / each.size for each in samples]
    error = math.sqrt(sum(squares))
    # Rounding leaves a trace of variance where all values are equal.
    if error <= 1e-12 * max(1.0, *(float(np.abs(each).max()) for each in samples)):
        return 0.0, math.nan
    return error, error**4 / sum(square**2 / (each.size - 1) for square, each in zip(squares, samples, strict=True))


def _students_t(effect: float, error: float, degrees: float) -> tuple[float, float]:
    """Return half the width of the 95 % interval, and the p-value."""
    if error == 0.0:
        return 0.0, 1.0 if abs(effect) <= 1e-12 else 0.0
    from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats would take longer to import than most commands

    return float(stdtrit(degrees, 0.975)) * error, 2.0 * float(stdtr(degrees, -abs(effect) / error))
