"""A histogram of latencies in logarithmic bins: any number of latencies in little memory, quantiles within 1 %.

It needs only the standard library.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from workloads.errors import InvalidHistogram

SCHEMA_VERSION = 1

LONGEST_S = 1e6
"""Longest latency that is accepted, eleven days; a longer one means that a clock is wrong."""

_WIDTH = 1.02
"""Ratio of a bin's edges: their geometric mean is within 1 % of every latency in the bin."""
_FINEST_MS = 0.001
"""Lower edge of the first logarithmic bin; all shorter latencies are in one bin from 0 up to it."""


class LatencyHistogram:
    """Latencies, counted in bins that are 2 % wide; number, minimum, maximum and sum are exact.

    The first bin is [0, 1) µs, where a quantile may be wrong by up to a microsecond.

    Examples
    --------
    >>> histogram = LatencyHistogram()
    >>> for milliseconds in (1, 2, 3, 4, 500):
    ...     histogram.add(milliseconds / 1000)
    >>> histogram.count, histogram.max, round(histogram.quantile(0.5), 4)
    (5, 0.5, 0.003)
    """

    def __init__(self) -> None:
        # In milliseconds, as in JSON.
        self._bins: Counter[int] = Counter()
        self._min_ms, self._max_ms, self._sum_ms = math.inf, 0.0, 0.0

    @property
    def count(self) -> int:
        """Number of latencies."""
        return self._bins.total()

    @property
    def min(self) -> float:
        """The shortest latency in seconds, infinite if there is none."""
        return self._min_ms / 1e3

    @property
    def max(self) -> float:
        """The longest latency in seconds, 0 if there is none."""
        return self._max_ms / 1e3

    def add(self, seconds: float) -> None:
        """Count a latency.

        Raises
        ------
        InvalidHistogram
            If it is not a number from 0 to `LONGEST_S`; it is not counted then.
        """
        if not 0 <= seconds <= LONGEST_S:
            raise InvalidHistogram(f"a latency of {seconds} s: it must be from 0 to {LONGEST_S:g} s; check the clock")
        latency_ms = seconds * 1e3
        self._bins[_bin(latency_ms)] += 1
        self._min_ms = min(self._min_ms, latency_ms)
        self._max_ms = max(self._max_ms, latency_ms)
        self._sum_ms += latency_ms

    def quantile(self, q: float) -> float:
        """Return the latency that a share `q` of all latencies does not exceed.

        It is the latency of the nearest rank (numpy's `inverted_cdf`), within 1 %; the shortest and the longest latency
        are exact.

        Parameters
        ----------
        q : float
            Share, 0 to 1.

        Returns
        -------
        float
            Seconds.

        Raises
        ------
        InvalidHistogram
            If `q` is not from 0 to 1, or no latency has been counted.
        """
        if not 0 <= q <= 1:
            raise InvalidHistogram(f"the quantile {q} was asked for; it must be from 0 to 1, such as 0.99")
        count = self.count
        if not count:
            raise InvalidHistogram("a histogram without latencies has no quantiles: look at its count first")
        rank = max(1, math.ceil(q * count))
        if rank in (1, count):
            return self.min if rank == 1 else self.max
        reached = 0
        for position in sorted(self._bins):
            reached += self._bins[position]
            if reached >= rank:
                break
        lower_ms, upper_ms = _edges(position)
        middle_ms = math.sqrt(lower_ms * upper_ms) if lower_ms else upper_ms / 2
        return min(max(middle_ms, self._min_ms), self._max_ms) / 1e3

    def to_dict(self) -> dict[str, Any]:
        """Return the content for JSON; bins that are not empty are ``[lower, upper, count]``, edges in milliseconds."""
        count = self.count
        return {
            "schema_version": SCHEMA_VERSION,
            "unit": "ms",
            "count": count,
            "min": self._min_ms if count else None,
            "max": self._max_ms if count else None,
            "sum": self._sum_ms,
            "bins": [[*_edges(position), self._bins[position]] for position in sorted(self._bins)],
        }


def _bin(latency_ms: float) -> int:
    """Return the position of the bin of a latency, 0 below `_FINEST_MS`."""
    if latency_ms < _FINEST_MS:
        return 0
    return 1 + math.floor(math.log(latency_ms / _FINEST_MS) / math.log(_WIDTH))


def _edges(position: int) -> tuple[float, float]:
    """Return lower and upper edge of a bin in milliseconds."""
    if position == 0:
        return 0.0, _FINEST_MS
    return _FINEST_MS * _WIDTH ** (position - 1), _FINEST_MS * _WIDTH**position
