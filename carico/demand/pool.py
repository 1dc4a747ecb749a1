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


NEWS = 0.1
"""A node's statement that has changed by less than this share of its doubt, or of its variance, is no news."""


class _Evidence(NamedTuple):
    """What a node has seen beyond what is assumed."""

    said: Estimate
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
        self._costs: dict[str, Estimate] = {}
        """Those that were asked for since they changed."""
        self._sums: dict[str, tuple[float, float, float, int]] = {}
        """Over all nodes: weight, weight x mean, weight² / precision, and their number, by workload."""

    def update(self, node: str, costs: Mapping[str, Estimate]) -> None:
        """Replace what a node has learned."""
        before = self._of_node.get(node, {})
        after = {}
        for workload, cost in costs.items():
            known = before.get(workload)
            if known is not None and _same(known.said, cost):
                after[workload] = known
            elif cost.variance < self.first.variance:
                after[workload] = self._add(node, workload, cost)
                if known is not None:
                    self._sum(workload, known, -1)
        for workload in before.keys() - after.keys():
            self._means[workload].pop(node, None)
            self._sum(workload, before[workload], -1)
        self._of_node[node] = after

    def forget(self, node: str) -> None:
        """Drop what a node has learned."""
        self.update(node, {})
        del self._of_node[node]

    def cost(self, workload: str) -> Estimate:
        """What a pod of the workload demands, as far as all nodes know."""
        cost = self._costs.get(workload)
        if cost is None:
            if workload not in self._sums:
                return self.first
            cost = self._costs[workload] = self._pooled(workload)
        return cost

    def _pooled(self, workload: str) -> Estimate:
        weight, weighted, doubt, _ = self._sums[workload]
        mean, variance = self.first
        total = 1 / variance + max(weight, 0.0)
        return Estimate(max((mean / variance + weighted) / total, 0.0), (1 / variance + max(doubt, 0.0)) / total**2)

    def _add(self, node: str, workload: str, cost: Estimate) -> _Evidence:
        mean, variance = self.first
        if cost.variance <= variance / _KNOWS:
            self._means[workload][node] = cost.mean
        share = cost.variance / variance
        seen = (self._believed(workload, cost.mean) - mean * share) / (1 - share)
        precision = 1 / cost.variance - 1 / variance if cost.variance else float("inf")
        evidence = _Evidence(cost, seen, precision, min(precision, self._most))
        self._sum(workload, evidence, +1)
        return evidence

    def _sum(self, workload: str, evidence: _Evidence, sign: int) -> None:
        weight, weighted, doubt, nodes = self._sums.get(workload, (0.0, 0.0, 0.0, 0))
        own = sign * evidence.weight
        self._costs.pop(workload, None)
        if nodes + sign:
            self._sums[workload] = (
                weight + own,
                weighted + own * evidence.mean,
                doubt + own / evidence.precision * evidence.weight,
                nodes + sign,
            )
        else:
            self._sums.pop(workload, None)
            self._means.pop(workload, None)
            self._median.pop(workload, None)

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


def _same(one: Estimate, other: Estimate) -> bool:
    if one == other:
        return True
    apart = one.mean - other.mean
    return apart * apart <= NEWS**2 * other.variance and abs(one.variance - other.variance) <= NEWS * other.variance
