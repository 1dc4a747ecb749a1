"""Arrival patterns: when the pods of a job arrive, counted from the job's publication.

A pattern is chosen in a scenario by its tag, for instance ``arrivals: {pattern: poisson, rate_per_s: 2}``. Random
patterns draw only from the generator that is passed in.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Rate = Annotated[float, Meta(gt=0, le=1_000_000)]
Time = Annotated[float, Meta(ge=0, le=1_000_000)]
Period = Annotated[float, Meta(gt=0, le=1_000_000)]


class Burst(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="pattern", tag="burst"):
    """All pods at once."""

    def times(self, count: int, rng: np.random.Generator) -> list[float]:
        """Return the arrival times of `count` pods, seconds, ascending."""
        return [0.0] * count


class Poisson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="pattern", tag="poisson"):
    """Independent pods: exponential gaps of a mean rate."""

    rate_per_s: Rate

    def times(self, count: int, rng: np.random.Generator) -> list[float]:
        """Return the arrival times of `count` pods, seconds, ascending."""
        return [float(at) for at in np.cumsum(rng.exponential(1.0 / self.rate_per_s, count))]


class StaggeredBursts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="pattern", tag="staggered"):
    """Bursts of equal size at equal intervals; where the sizes cannot be equal they differ by one pod."""

    bursts: Annotated[int, Meta(ge=1, le=1_000_000)]
    every_s: Period

    def times(self, count: int, rng: np.random.Generator) -> list[float]:
        """Return the arrival times of `count` pods, seconds, ascending."""
        bursts = min(self.bursts, count)
        return [self.every_s * (pod * bursts // count) for pod in range(count)]


class Diurnal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="pattern", tag="diurnal"):
    """Independent pods whose rate swings around its mean, from the trough at the beginning to the peak at half time."""

    mean_per_s: Rate
    swing: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """How far the rate goes up and down, relative to the mean."""
    period_s: Period = 86_400.0

    def times(self, count: int, rng: np.random.Generator) -> list[float]:
        """Return the arrival times of `count` pods, seconds, ascending."""
        # Arrivals of rate 1 on the scale of the rate's integral, mapped back to time.
        expected = np.cumsum(rng.exponential(1.0, count))
        low = np.zeros(count)
        high = expected / self.mean_per_s + self.period_s
        for _ in range(60):  # bisection: the integral never decreases with time
            middle = (low + high) / 2
            early = self._expected_until(middle) < expected
            low, high = np.where(early, middle, low), np.where(early, high, middle)
        return [float(at) for at in high]

    def _expected_until(self, at_s: FloatArray) -> FloatArray:
        turn = 2 * math.pi / self.period_s
        return self.mean_per_s * (at_s - self.swing / turn * np.sin(turn * at_s))


class Trace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="pattern", tag="trace"):
    """Pods at given times; if the job has fewer pods than there are times, the earliest times count."""

    at_s: Annotated[list[Time], Meta(min_length=1)]

    def times(self, count: int, rng: np.random.Generator) -> list[float]:
        """Return the arrival times of `count` pods, seconds, ascending; there must be at least `count` times."""
        return sorted(self.at_s)[:count]


Arrivals = Burst | Poisson | StaggeredBursts | Diurnal | Trace
PATTERNS: tuple[type[Arrivals], ...] = (Burst, Poisson, StaggeredBursts, Diurnal, Trace)
