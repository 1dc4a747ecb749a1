"""Comparing completion times: how certain a median is, and whether one scheduler is slower than another.

On simulated clusters, equal seeds give equal pods and conditions: repetitions are paired by seed (`compare`). On a real
cluster conditions drift: schedulers run in turns there, and repetitions are paired by turn (`compare_repetitions`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from testbed.errors import ResultsError

LEAST_FOR_INTERVAL = 6
"""With fewer values, not even the extremes enclose the median with 95 % confidence."""
LEAST_FOR_VERDICT = 3
"""With fewer pairs there is no verdict."""


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median; for fewer than six values, their extremes."""
    return _interval(values, np.median)


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the same interval for the mean."""
    return _interval(values, np.mean)


def _interval(values: Sequence[float], statistic: Callable[..., Any]) -> tuple[float, float]:
    if len(values) < LEAST_FOR_INTERVAL or min(values) == max(values):
        return min(values), max(values)
    return bootstrap_interval(statistic(resampled(values, np.random.default_rng(0)), axis=1))


def resampled(values: Sequence[float], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return 9999 samples of the values with replacement, one a row, each as long as the values."""
    return rng.choice(values, (9999, len(values)))


def bootstrap_interval(statistics: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % interval of a statistic of resampled values.

    This is the percentile method: other methods are undefined for samples of few distinct values. scipy.stats is not
    used, because importing it takes longer than most commands.
    """
    low, high = np.percentile(statistics, [2.5, 97.5])
    return float(low), float(high)


def compare(reference: Mapping[int, float], candidate: Mapping[int, float]) -> tuple[float, str]:
    """Compare times of the same seeds.

    Parameters
    ----------
    reference, candidate : mapping of int to float
        Seconds, positive, by seed. Only common seeds count: both runs of a pair had the same pods, in the same order.

    Returns
    -------
    delta : float
        The share by which the candidate takes longer: the geometric mean of the pairs' ratios, minus 1; NaN if there is
        no pair.
    verdict : str
        ``slower``, ``faster``, or ``unclear`` where the 95 % interval of delta (Student's t, of the logarithms)
        includes 0; ``same`` if no pair differs; ``n < 3`` if there are too few pairs for an interval.

    Examples
    --------
    >>> delta, verdict = compare({1: 100.0, 2: 102.0, 3: 98.0}, {1: 111.0, 2: 112.0, 3: 107.0})
    >>> round(delta, 3), verdict
    (0.1, 'slower')
    """
    ratios = np.log([candidate[seed] / reference[seed] for seed in reference if seed in candidate])
    if not ratios.size:
        return math.nan, f"n < {LEAST_FOR_VERDICT}"
    if not ratios.any():
        return 0.0, "same"
    mean = float(ratios.mean())
    delta = math.exp(mean) - 1.0
    if ratios.size < LEAST_FOR_VERDICT:
        return delta, f"n < {LEAST_FOR_VERDICT}"
    from scipy.special import stdtrit  # the quantile of Student's t

    half = float(stdtrit(ratios.size - 1, 0.975) * ratios.std(ddof=1) / math.sqrt(ratios.size))
    if abs(mean) <= half:
        return delta, "unclear"
    return delta, "slower" if mean > 0 else "faster"


@dataclass(frozen=True)
class Comparison:
    """How a figure compares with a reference, where less is better."""

    ratio: float
    """Candidate over reference: the geometric mean over the repetitions."""
    low: float
    high: float
    """95 % interval of the ratio."""
    verdict: Literal["better", "worse", "inconclusive"]
    repetitions: int

    def __str__(self) -> str:
        return f"{self.verdict}: 95 % interval {self.low:.2f} to {self.high:.2f}, n = {self.repetitions}"


def compare_repetitions(reference: Sequence[float], candidate: Sequence[float]) -> Comparison:
    """Compare repetitions that ran in turns, pair by pair, by a bootstrap over the pairs.

    Parameters
    ----------
    reference, candidate : sequence of float
        Positive figures in the order of the turns, at least one each.

    Returns
    -------
    Comparison
        For fewer than six pairs the interval is the extremes of the pairs' ratios, and the verdict is ``inconclusive``:
        a bootstrap over so few pairs gives intervals that are far too narrow.

    Raises
    ------
    ResultsError
        If there is no pair, or the numbers of repetitions differ.

    Examples
    --------
    >>> print(compare_repetitions([10.0, 12.0], [11.0, 12.0]))
    inconclusive: 95 % interval 1.00 to 1.10, n = 2
    """
    if not len(reference) or len(reference) != len(candidate):
        raise ResultsError(
            f"repetitions are compared in pairs, got {len(reference)} of the reference and {len(candidate)} of the "
            f"candidate: run both equally often, at least once"
        )
    ratios = np.log(candidate) - np.log(reference)
    ratio = math.exp(ratios.mean())
    low, high = map(math.exp, mean_interval(ratios.tolist()))
    sure = ratios.size >= LEAST_FOR_INTERVAL
    verdict: Literal["better", "worse", "inconclusive"] = "inconclusive"
    if sure and high < 1:
        verdict = "better"
    elif sure and low > 1:
        verdict = "worse"
    return Comparison(ratio, low, high, verdict=verdict, repetitions=ratios.size)
