"""Summary statistics of a sample, as in the thesis's tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean, standard deviation (n - 1), extremes, quartiles and three tail percentiles of a non-empty sample."""
    array = np.asarray(values, dtype=np.float64)
    p25, p50, p75, p90, p95, p99 = np.percentile(array, [25, 50, 75, 90, 95, 99])
    figures = {
        "count": array.size,
        "mean": array.mean(),
        "std": array.std(ddof=1) if array.size > 1 else 0.0,
        "min": array.min(),
        "p25": p25,
        "p50": p50,
        "p75": p75,
        "p90": p90,
        "p95": p95,
        "p99": p99,
        "max": array.max(),
    }
    return {name: round(float(figure), 6) for name, figure in figures.items()}
