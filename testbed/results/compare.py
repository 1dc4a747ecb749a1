"""Comparing completion times: how sure a median is, and whether one scheduler is slower than another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

LEAST_FOR_INTERVAL = 6
"""Of fewer values than that not even the extremes enclose the median with 95 % confidence."""
LEAST_FOR_VERDICT = 3
"""Of fewer pairs nothing is concluded."""


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median; below six values their extremes, which is all there is."""
    if len(values) < LEAST_FOR_INTERVAL or min(values) == max(values):
        return min(values), max(values)
    from scipy.stats import bootstrap

    # The percentile method: the others are undefined for samples of few distinct values.
    rng = np.random.default_rng(0)
    found = bootstrap((values,), np.median, method="percentile", random_state=rng).confidence_interval
    return float(found.low), float(found.high)


def compare(reference: Mapping[int, float], candidate: Mapping[int, float]) -> tuple[float, str]:
    """Compare times of the same seeds.

    Parameters
    ----------
    reference, candidate : mapping of int to float
        Seconds, positive, by seed. Only seeds that both have count: a pair met the same pods, in the same order.

    Returns
    -------
    delta : float
        By what share the candidate takes longer: the geometric mean of the pairs' ratios, less 1; NaN without a pair.
    verdict : str
        ``slower``, ``faster``, or ``unclear`` where the 95 % interval of delta (Student's t, of the logarithms)
        includes no difference at all; ``same`` if no pair differs, ``n < 3`` where there are too few for an interval.

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
    from scipy.stats import t

    half = float(t.ppf(0.975, ratios.size - 1) * ratios.std(ddof=1) / math.sqrt(ratios.size))
    if abs(mean) <= half:
        return delta, "unclear"
    return delta, "slower" if mean > 0 else "faster"
