"""Which nodes exchange something far from what the others do: how often, and what usage their subspaces show. Pure.

A node is far if it exchanges more than eight times as often as most, or if the usage of a resource in its subspace (the
root of its mean square) differs from the median by more than half of the resource, and by more than twice as much as
that of nine nodes in ten: idle nodes in a busy cluster are a part of it, unless they are very few. Nodes of any size
are alike in this, because usage is a share. One node must not make itself the measure, so there must be three.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from carico.arrays import FloatArray
from carico.model.aggregator import BATCH_SIZE
from carico.model.node_model import RESOURCES
from carico.model.subspace import Subspace
from carico.outliers import LOOK_EVERY_S, Outlier, Outliers, Said

_FEWEST = 3
_OFTEN = 8.0
_SELDOM_PER_S = 0.2
"""Agents exchange at least so often; nobody is far because others are slow."""
_APART = 0.5
_MOST_NODES = 0.9
_TIMES = 2.0


class ExchangeOutliers:
    """Notes what nodes exchange, and looks every few seconds who is far from the others."""

    def __init__(self) -> None:
        self._columns: dict[str, FloatArray] = {}
        """What each node has exchanged last, shape (d, r)."""
        self._exchanges: Counter[str] = Counter()
        """Since the last look."""
        self._outliers = Outliers()
        self._looked_at: float | None = None

    @property
    def present(self) -> list[Outlier]:
        """The outliers at the last look."""
        return self._outliers.present

    def note(self, node: str, subspace: Subspace) -> None:
        """Note an exchange."""
        self._columns[node] = subspace.columns
        self._exchanges[node] += 1

    def forget(self, node: str) -> None:
        """Forget a node that is no longer counted."""
        self._columns.pop(node, None)
        self._exchanges.pop(node, None)

    def look(self, now: float) -> list[Outlier]:
        """Look who is far, unless the last look was a moment ago, and return those who have become outliers."""
        if self._looked_at is None:
            self._looked_at = now
        elapsed_s = now - self._looked_at
        if elapsed_s < LOOK_EVERY_S:
            return []
        found = self._outliers.look(self._far(elapsed_s), now)
        self._exchanges.clear()
        self._looked_at = now
        return found

    def _far(self, elapsed_s: float) -> dict[tuple[str, str], Said]:
        names = list(self._columns)
        if len(names) < _FEWEST:
            return {}
        rates = np.array([self._exchanges[name] for name in names]) / elapsed_s
        often = float(np.median(rates))
        far = {
            (names[row], "exchanges per second"): Said(float(rates[row]), often)
            for row in np.flatnonzero(rates > _OFTEN * max(often, _SELDOM_PER_S)).tolist()
        }
        usage = np.sqrt([np.einsum("dr,dr->d", each, each) / BATCH_SIZE for each in self._columns.values()])
        median = np.median(usage, axis=0)
        apart = np.abs(usage - median)
        most = np.maximum(_TIMES * np.quantile(apart, _MOST_NODES, axis=0, method="lower"), _APART)
        resources = RESOURCES if usage.shape[1] == len(RESOURCES) else tuple(map(str, range(usage.shape[1])))
        for row, column in np.argwhere(apart > most).tolist():
            about = f"usage of {resources[column]}"
            far[names[row], about] = Said(float(usage[row, column]), float(median[column]))
        return far
