"""A histogram of latencies in logarithmic bins: any number of them in little memory, quantiles right within 1 %.

Needs the standard library alone. What is written to JSON is checked in full when it is read back.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from workloads.errors import InvalidHistogram

SCHEMA_VERSION = 1

LONGEST_S = 1e6
"""Longest latency that is taken, eleven days; more is a clock that has gone wrong."""

_WIDTH = 1.02
"""Upper edge of a bin over its lower edge: their geometric mean is within 1 % of everything in the bin."""
_FINEST_MS = 0.001
"""Where the bins begin; what is shorter is counted in one bin that begins at 0."""
_MOST = 2**53
"""Most latencies a bin may claim to hold: what a float still counts one by one."""


class LatencyHistogram:
    """Latencies, counted in bins that are 2 % wide; count, minimum, maximum and sum are exact.

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
        # In milliseconds, as in JSON: a round trip changes no bit.
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

    @property
    def sum(self) -> float:
        """All latencies together, in seconds."""
        return self._sum_ms / 1e3

    def add(self, seconds: float) -> None:
        """Count a latency.

        Raises
        ------
        InvalidHistogram
            If it is no number from 0 to `LONGEST_S`; nothing is counted then.
        """
        if not 0 <= seconds <= LONGEST_S:
            raise InvalidHistogram(f"a latency of {seconds} s: it must be from 0 to {LONGEST_S:g} s; check the clock")
        latency_ms = seconds * 1e3
        self._bins[_bin(latency_ms)] += 1
        self._min_ms = min(self._min_ms, latency_ms)
        self._max_ms = max(self._max_ms, latency_ms)
        self._sum_ms += latency_ms

    def merge(self, other: LatencyHistogram) -> None:
        """Count all that `other` has counted, too."""
        self._bins.update(other._bins)
        self._min_ms = min(self._min_ms, other._min_ms)
        self._max_ms = max(self._max_ms, other._max_ms)
        self._sum_ms += other._sum_ms

    def quantile(self, q: float) -> float:
        """Return the latency that a share `q` of all latencies does not exceed.

        By nearest rank: the shortest latency with at least ``q * count`` latencies up to it (numpy's `inverted_cdf`),
        known within 1 %; the shortest and the longest are exact.

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
            If `q` is no share, or no latency has been counted.
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
        """Return it as JSON takes it, with the bins that are not empty as ``[lower, upper, count]`` in milliseconds."""
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

    @classmethod
    def from_dict(cls, content: object) -> LatencyHistogram:
        """Return the histogram that `to_dict` wrote; keys it does not know are ignored.

        Raises
        ------
        InvalidHistogram
            If it is not what `to_dict` writes, or its numbers contradict each other.
        """
        if not isinstance(content, dict):
            raise InvalidHistogram(f"a histogram is a JSON object, not {_shown(content)}")
        for key, wanted in (("schema_version", SCHEMA_VERSION), ("unit", "ms")):
            if content.get(key) != wanted or isinstance(content[key], bool):
                raise InvalidHistogram(f"{key} is {_shown(content.get(key))}, this version reads {wanted!r}")
        bins = content.get("bins")
        if not isinstance(bins, list):
            raise InvalidHistogram(f"bins is {_shown(bins)}; it must be a list of [lower, upper, count]")
        histogram = cls()
        for item in bins:
            position = _position(item)
            if position in histogram._bins:
                raise InvalidHistogram(f"the bin {item} is there twice")
            histogram._bins[position] = item[2]
        if content.get("count") != histogram.count or isinstance(content.get("count"), bool):
            raise InvalidHistogram(f"count is {_shown(content.get('count'))}, the bins hold {histogram.count}")
        histogram._read_summary(content)
        return histogram

    def _read_summary(self, content: dict[str, Any]) -> None:
        """Take minimum, maximum and sum, if they go with the bins."""
        if not self._bins:
            if (content.get("min"), content.get("max"), content.get("sum")) != (None, None, 0):
                raise InvalidHistogram("min, max and sum of an empty histogram must be null, null and 0")
            return
        low, high, total = (_number(content, key) for key in ("min", "max", "sum"))
        if low > high or (_bin(low), _bin(high)) != (min(self._bins), max(self._bins)):
            raise InvalidHistogram(f"min {low} and max {high} are not in the first and the last bin")
        count = self.count
        slack = 1 + 1e-9  # of adding up in floating point
        if not count * low / slack <= total <= count * high * slack:
            raise InvalidHistogram(f"sum is {total}; {count} latencies from {low} to {high} cannot have it")
        self._min_ms, self._max_ms, self._sum_ms = low, high, total


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


def _position(item: object) -> int:
    """Return the position of a bin that was read."""
    match item:
        case [float() | int() as lower, float() | int() as upper, int() as count] if (
            not isinstance(count, bool) and 1 <= count <= _MOST and 0 <= lower < upper <= 2 * LONGEST_S * 1e3
        ):
            position = _bin(math.sqrt(lower * upper)) if lower else 0
            if all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip((lower, upper), _edges(position), strict=True)):
                return position
    raise InvalidHistogram(f"{_shown(item)} is no bin: write [lower, upper, count] with the edges of this version")


def _number(content: dict[str, Any], key: str) -> float:
    """Return one of the numbers of the summary."""
    value = content.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST * LONGEST_S * 1e3:
        raise InvalidHistogram(f"{key} is {_shown(value)}; it must be a number of milliseconds that latencies can have")
    return float(value)


def _shown(value: object) -> str:
    """Show what was read in an error message, not more of it than fits a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
