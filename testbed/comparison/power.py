"""The power of a gate: which changes it finds almost always, given the noise of what it compares.

A gate that passes says little if it could have found nothing. What it finds follows from the noise, the number of
repetitions, and the level: the power of Student's t, whose noncentral distribution scipy has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.comparison import LEAST
from testbed.comparison.conditions import Condition
from testbed.comparison.gate import LEVEL, Gate
from testbed.comparison.measured import Measured
from testbed.measurement.metrics import Figure

POWER = 0.95
"""How often a change is found that counts as found."""


@dataclass(frozen=True)
class Found:
    """From which change on a gate finds that a figure is worse, in `POWER` of all sessions."""

    title: str
    figure: Figure
    change: float
    """As a share of the reference; negative for what more is better of."""


def noisiest(gate: Gate) -> Found | None:
    """Return the figure of which a gate would have found the least, by the noise that it has seen.

    None if nothing is judged by a ratio, or nothing varied, as where both sides are the same simulation.
    """
    level = LEVEL / max(len(gate.judgements), 1)
    found = []
    for one in gate.judgements:
        seen = one.found.difference
        if seen.enough and seen.relative and one.condition.relative and 0.0 < seen.error < math.inf:
            change = _change(one.condition.limit, seen.error, seen.degrees, level)
            found.append(Found(one.found.title, one.found.figure, change))
    return _least(found)


def noisiest_of_baseline(measured: Sequence[Measured], conditions: Iterable[Condition]) -> Found | None:
    """Return the figure of which a gate by a baseline finds the least, by the noise from seed to seed.

    Sessions of the same seeds find more, since what seeds have in common cancels.
    """
    judged = [
        (one, condition, series.figure, [value for value in series.values if value is not None])
        for condition in conditions
        for one in measured
        for series in one.series
        if (series.metric, series.statistic) == (condition.figure.metric, condition.figure.statistic)
    ]
    found = []
    for one, condition, figure, values in judged:
        if condition.relative and len(values) >= LEAST and min(values) > 0:
            error = float(np.log(values).std(ddof=1)) * math.sqrt(2.0 / len(values))
            if error > 0.0:
                change = _change(condition.limit, error, 2.0 * len(values) - 2.0, LEVEL / len(judged))
                found.append(Found(one.title, figure, change))
    return _least(found)


def _change(limit: float, error: float, degrees: float, level: float) -> float:
    """Return the change beyond a limit that is found with the probability `POWER`; errors are of logarithms."""
    from scipy.special import nctdtrinc, stdtrit

    needed = float(nctdtrinc(degrees, 1.0 - POWER, stdtrit(degrees, 1.0 - level)))
    return (1.0 + limit) * math.exp(math.copysign(needed * error, limit)) - 1.0


def _least(found: Sequence[Found]) -> Found | None:
    return max(found, key=lambda one: abs(math.log1p(one.change)) if one.change > -1 else math.inf, default=None)
