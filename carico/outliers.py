"""Outliers: nodes that have said something far from what most nodes say, without a break for half a minute. Pure.

What is far is decided where it is known: of costs, what the pool of `demand` clips (`carico.demand.pool`); of
exchanges, see `carico.aggregation.outliers`. No outlier is left out of anything, because the limits hold for every
node; people are told, because such a node is broken, hostile, or different in a way that they should know.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

LASTING_S = 30.0
LOOK_EVERY_S = 5.0
MOST = 1000
"""The most outliers that are followed: what is said of one node takes some hundred bytes."""
MOST_SHOWN = 100
"""The most that people are shown."""


class Said(NamedTuple):
    """What a node says, and the median of what the others say with it."""

    says: float
    others: float


class Outlier(NamedTuple):
    """A node that is far from the others."""

    node: str
    about: str
    """What it speaks about, as in ``cores of a pod of jobs/pi``."""
    says: float
    others: float
    """The median of all nodes."""
    for_s: float
    """For how long it has been far, seconds."""

    def __str__(self) -> str:
        """Say it in a line."""
        says, others = amount(self.says), amount(self.others)
        return f"{self.node}: {self.about}: {says}, most nodes say {others}, for {self.for_s:.0f} s"


def amount(value: float) -> str:
    """Return a number for people.

    Examples
    --------
    >>> amount(1.7e-17), amount(0.85), amount(9.0), amount(12345.678)
    ('0', '0.85', '9', '1.235e+04')
    """
    return f"{round(value, 3):.4g}"


class Outliers:
    """Who is far from the others, and since when.

    Examples
    --------
    >>> outliers = Outliers()
    >>> far = {("node-3", "cores of a pod of jobs/pi"): Said(9.0, 1.0)}
    >>> outliers.look(far, now=0.0), [str(each) for each in outliers.look(far, now=30.0)]
    ([], ['node-3: cores of a pod of jobs/pi: 9, most nodes say 1, for 30 s'])
    >>> outliers.look(far, now=35.0), len(outliers.present)
    ([], 1)
    >>> outliers.look({}, now=40.0), len(outliers.present)
    ([], 0)
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self.present: list[Outlier] = []
        """The outliers at the last look."""

    def look(self, far: Mapping[tuple[str, str], Said], now: float) -> list[Outlier]:
        """Take in who is far now, and return those who have become outliers.

        Parameters
        ----------
        far : mapping of (str, str) to Said
            By node, and what it speaks about.
        now : float
            Seconds.
        """
        known = {(each.node, each.about) for each in self.present}
        # Who was far before comes first: nobody makes room for itself by being far in many things.
        kept = {key: since for key, since in self._since.items() if key in far}
        kept |= dict.fromkeys(islice((key for key in far if key not in kept), MOST - len(kept)), now)
        self._since = kept
        self.present = [
            Outlier(*key, *far[key], now - since) for key, since in kept.items() if now - since >= LASTING_S
        ]
        return [each for each in self.present if (each.node, each.about) not in known]
