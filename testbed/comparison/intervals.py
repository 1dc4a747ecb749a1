"""How uncertain a figure over repetitions is: 95 % bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_FOR_INTERVAL = 6
"""With fewer values, not even the extremes enclose the median with 95 % confidence."""


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
