"""What a pod of a workload costs, by what all nodes have learned. Pure.

Every node's evidence is weighted by its precision. A node's estimate is what is assumed of every workload, corrected by
what the node has seen: what is assumed counts once, what was seen counts for every node.

No node is believed to know a cost better than to a certain precision, nor that it is far from what most nodes say. So a
node that is broken, or hostile, moves the cost that all see by a share that shrinks with the number of nodes.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from carico.demand.regression import Estimate

APART = 4.0
"""A node is not believed to see a cost that is more than so many times the median of all nodes, or less by as much."""
_FEWEST = 3
"""Among fewer nodes none is the odd one."""
_KNOWS = 4.0
"""A node knows a workload if its variance is so many times less than what is assumed."""


class _Evidence(NamedTuple):
    """What a node has seen beyond what is assumed."""

    mean: float
    precision: float
    weight: float
    """The precision as far as it is believed."""


class Pool:
    """The pooled costs of one resource.

    Parameters
    ----------
    first : Estimate
        What every node assumes of an unknown workload.
    finest : float
        Standard deviation below which no node is believed to know a cost. It bounds what one node can do to the view of
        all: of n nodes that know a cost well, each has a share of 1 / n in it, whatever it says of itself.

    Examples
    --------
    >>> pool = Pool(Estimate(1.0, 1.0))
    >>> pool.update("node-0", {"pi": Estimate(0.5, 0.25)})
    >>> pool.update("node-1", {"pi": Estimate(0.5, 0.25)})
    >>> mean, variance = pool.cost("pi")
    >>> round(mean, 3), round(variance, 3), pool.cost("another")
    (0.429, 0.143, Estimate(mean=1.0, variance=1.0))
    """

    def __init__(self, first: Estimate, finest: float = 0.0) -> None:
        self.first = first
        self._most = 1 / finest**2 - 1 / first.variance if finest else float("inf")
        self._of_node: dict[str, dict[str, _Evidence]] = {}
        self._means: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """What each node that knows a workload says of it, whether it is believed or not, by workload and node."""
        self._median: dict[str, tuple[float, int]] = {}
        """Of `_means`, and after how many more updates it is computed anew."""
        self._sums: dict[str, tuple[float, float, float, int]] = {}
        """Over all nodes: weight, weight x mean, weight² / precision, and their number, by workload."""

    def update(self, node: str, costs: Mapping[str, Estimate]) -> None:
        """Replace what a node has learned."""
        mean, variance = self.first
        seen = {}
        for workload, cost in costs.items():
            if cost.variance < variance:
                if cost.variance <= variance / _KNOWS:
                    self._means[workload][node] = cost.mean
                share = cost.variance / variance
                found = (self._believed(workload, cost.mean) - mean * share) / (1 - share)
                precision = 1 / cost.variance - 1 / variance if cost.variance else float("inf")
                seen[workload] = _Evidence(found, precision, min(precision, self._most))
        before = self._of_node.get(node, {})
        for workload in before.keys() | seen.keys():
            if workload not in seen:
                self._means[workload].pop(node, None)
            sums = self._sums.get(workload, (0.0, 0.0, 0.0, 0))
            for sign, evidence in ((-1, before.get(workload)), (+1, seen.get(workload))):
                if evidence is not None:
                    mean, precision, weight = evidence
                    change = (weight, weight * mean, weight / precision * weight)
                    a, b, c, nodes = sums
                    sums = (a + sign * change[0], b + sign * change[1], c + sign * change[2], nodes + sign)
            if sums[3]:
                self._sums[workload] = sums
            else:
                self._drop(workload)
        self._of_node[node] = seen

    def forget(self, node: str) -> None:
        """Drop what a node has learned."""
        self.update(node, {})
        del self._of_node[node]

    def cost(self, workload: str) -> Estimate:
        """What a pod of the workload demands, as far as all nodes know."""
        sums = self._sums.get(workload)
        if sums is None:
            return self.first
        mean, variance = self.first
        total = 1 / variance + max(sums[0], 0.0)
        doubt = (1 / variance + max(sums[2], 0.0)) / total**2
        return Estimate(max((mean / variance + sums[1]) / total, 0.0), doubt)

    def _believed(self, workload: str, mean: float) -> float:
        """Return what a node says of a workload as far as it is believed."""
        means = self._means[workload]
        if len(means) < _FEWEST:
            return mean
        median, left = self._median.get(workload, (0.0, 0))
        if left <= 0:  # seldom enough to cost no more than the update itself
            median, left = statistics.median(means.values()), len(means)
        self._median[workload] = median, left - 1
        if median <= 0:
            return mean
        return min(max(mean, median / APART), APART * median)

    def _drop(self, workload: str) -> None:
        self._means.pop(workload, None)
        self._sums.pop(workload, None)
        self._median.pop(workload, None)
