"""What a pod of a workload costs, from what all nodes have learned. Pure.

Every node's evidence is weighted by its precision. A node's estimate is the prior assumption about every workload,
corrected by what the node has observed. In the pooled cost the assumption counts once, and every node's observations
count.

As long as no node has any evidence, a pod costs what is assumed, or more, if nodes say that it does (`least`).

Two limits contain a broken or hostile node: its precision is capped, and its estimate is clipped if it is far from the
median of all nodes. It can thus move the pooled cost only by a share that shrinks with the number of nodes.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from carico.demand.least import Least
from carico.demand.memory import Memory
from carico.demand.regression import Estimate
from carico.outliers import Said

APART = 4.0
"""A node's cost is clipped to at most this factor above or below the median of all nodes."""
_FEWEST = 3
"""With fewer nodes, no cost is clipped: none of them is in the minority."""
_MUCH = 0.5
"""A clipped cost is far if it differs from the median by more than this share of the doubt about an unknown one."""
_KNOWS = 4.0
"""A node knows a workload if its variance is at least this many times smaller than the assumed one."""
NEWS = 0.1
"""A node's estimate is news if its mean has changed by more than this share of the standard deviation, or its variance
by more than this share of itself."""
_NEWS_SQUARED = NEWS**2


class _Evidence(NamedTuple):
    """What a node has observed, without the assumption that its estimate contains."""

    reported: Estimate
    weight: float
    """The precision, capped."""
    weighted: float
    """The mean, clipped, times the weight."""
    doubt: float
    """The variance times the square of the weight."""


class Pool:
    """The pooled costs of one resource.

    Parameters
    ----------
    first : Estimate
        What every node assumes about an unknown workload.
    finest : float
        The smallest standard deviation that a node is credited with. It limits the influence of one node: of n nodes
        that know a cost well, each has a share of 1 / n in it, whatever precision it claims.
    memory : Memory, optional
        What workloads used to cost, which takes the place of what every node assumes.

    Examples
    --------
    >>> pool = Pool(Estimate(1.0, 1.0))
    >>> pool.update("node-0", {"pi": Estimate(0.5, 0.25)})
    >>> pool.update("node-1", {"pi": Estimate(0.5, 0.25)})
    >>> mean, variance = pool.cost("pi")
    >>> round(mean, 3), round(variance, 3), pool.cost("another")
    (0.429, 0.143, Estimate(mean=1.0, variance=1.0))
    """

    def __init__(self, first: Estimate, finest: float = 0.0, memory: Memory | None = None) -> None:
        self.first = first
        self._memory = memory
        self._finest = finest
        self._most = 1 / finest**2 - 1 / first.variance if finest else float("inf")
        self._of_node: dict[str, dict[str, _Evidence]] = {}
        self._least = Least()
        """What nodes say that do not know a workload yet."""
        self._means: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """The mean, before clipping, that each node that knows a workload reports, by workload and node."""
        self._reported: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """The mean, before clipping, that each node that has observed anything of a workload reports."""
        self._far: defaultdict[str, set[str]] = defaultdict(set)
        """Those of these nodes whose means are clipped at present."""
        self._median: dict[str, tuple[float, int]] = {}
        """The median of `_means`, and after how many more updates it is computed again, by workload."""
        self._costs: dict[str, Estimate] = {}
        """Pooled costs, by workload; one is dropped when the workload's sums change or more of it is remembered."""
        self._sums: dict[str, tuple[float, float, float]] = {}
        """Sums of the evidence of all nodes, by workload: weight, weighted, doubt."""

    def update(self, node: str, costs: Mapping[str, Estimate]) -> None:
        """Replace what a node has learned."""
        evidence = self._of_node.setdefault(node, {})
        for workload, cost in costs.items():
            before = evidence.get(workload)
            # Most estimates are no news. The test is written out here: every workload of every report meets it.
            if before is not None:
                mean, variance = cost
                was, was_variance = before.reported
                apart, most = mean - was, NEWS * variance
                if apart * apart <= _NEWS_SQUARED * variance and -most <= was_variance - variance <= most:
                    continue
            if cost.variance < self.first.variance:
                evidence[workload] = self._add(node, workload, cost, before)
                self._least.drop(node, workload)
            else:
                if before is not None:
                    self._remove(node, workload)
                self._least.note(node, workload, cost)
        if not evidence.keys() <= costs.keys():
            for workload in [name for name in evidence if name not in costs]:
                self._remove(node, workload)
        self._least.keep(node, costs)

    def forget(self, node: str) -> None:
        """Drop what a node has learned."""
        self.update(node, {})
        del self._of_node[node]

    def cost(self, workload: str) -> Estimate:
        """What a pod of the workload demands, according to all nodes together."""
        cost = self._costs.get(workload)
        if cost is None:
            assumed = self.first if self._memory is None else self._memory.cost(workload)
            if workload not in self._sums:
                least = self._least.cost(workload)
                return assumed if least is None or least.mean <= assumed.mean else least
            cost = self._costs[workload] = self._pooled(workload, assumed)
        return cost

    def costs(self, workloads: Iterable[str]) -> list[Estimate]:
        """`cost` of several workloads."""
        known = self._costs.get
        return [known(workload) or self.cost(workload) for workload in workloads]

    def knows(self, workload: str) -> bool:
        """Whether nodes know the cost of a workload, together."""
        return self.cost(workload).variance <= self.first.variance / _KNOWS

    def remember(self, workload: str, elapsed_s: float, now: float, shown: bool = True) -> None:
        """Let the memory note what nodes know of a workload whose pods have run for the last `elapsed_s` seconds.

        If pods have not `shown` lately what they cost, the memory only notes that they run.
        """
        if len(self._means.get(workload, ())) >= _FEWEST:
            # Whoever reported before the others might have been in the majority when the median was computed.
            self._note_median(workload)
        if self._memory is not None and not shown:
            self._memory.still_runs(workload, now)
        elif self._memory is not None and workload in self._sums:
            self._memory.note(workload, self._pooled(workload, self.first), elapsed_s, now)
            self._costs.pop(workload, None)

    def far(self) -> Iterator[tuple[str, str, Said]]:
        """Return workload, node and what it says, for nodes that know a workload and whose cost is clipped by much.

        Honest nodes may differ by a large factor where a pod costs next to nothing.
        """
        least = _MUCH * math.sqrt(self.first.variance)
        for workload, nodes in self._far.items():
            means, (median, _) = self._means.get(workload, {}), self._median.get(workload, (0.0, 0))
            for node in nodes & means.keys():
                if abs(means[node] - median) > least:
                    yield workload, node, Said(means[node], median)

    def _pooled(self, workload: str, assumed: Estimate) -> Estimate:
        weight, weighted, doubt = self._sums[workload]
        mean, variance = assumed
        total = 1 / variance + max(weight, 0.0)
        return Estimate(max((mean / variance + weighted) / total, 0.0), (1 / variance + max(doubt, 0.0)) / total**2)

    def _add(self, node: str, workload: str, cost: Estimate, before: _Evidence | None) -> _Evidence:
        """Note what a node has learned of a workload, and return its evidence."""
        if cost.variance <= self.first.variance / _KNOWS:
            self._means[workload][node] = cost.mean
        else:
            self._means[workload].pop(node, None)
        self._reported[workload][node] = cost.mean
        evidence = self._evidence(node, workload, cost, self._median_of(workload, node))
        self._sum(workload, evidence, before)
        return evidence

    def _remove(self, node: str, workload: str) -> None:
        """Drop what a node has learned of a workload."""
        evidence = self._of_node[node].pop(workload)
        self._means[workload].pop(node, None)
        self._far[workload].discard(node)
        del self._reported[workload][node]
        if self._reported[workload]:
            self._sum(workload, None, evidence)
        else:
            for of_workload in (self._sums, self._costs, self._means, self._reported, self._far, self._median):
                of_workload.pop(workload, None)

    def _evidence(self, node: str, workload: str, cost: Estimate, median: float | None) -> _Evidence:
        """Return the evidence in an estimate that is clipped to the neighbourhood of the median, if there is one."""
        low, high = self._neighbourhood(median)
        clipped = cost.mean
        if not low <= clipped <= high:
            clipped = low if clipped < low else high
            self._far[workload].add(node)
        elif workload in self._far:
            self._far[workload].discard(node)
        mean, variance = self.first
        share = cost.variance / variance
        seen = (clipped - mean * share) / (1 - share)
        precision = 1 / cost.variance - 1 / variance if cost.variance else float("inf")
        weight = min(precision, self._most)
        return _Evidence(cost, weight, weight * seen, weight / precision * weight)

    def _sum(self, workload: str, added: _Evidence | None, removed: _Evidence | None) -> None:
        weight, weighted, doubt = self._sums.get(workload, (0.0, 0.0, 0.0))
        if added is not None:
            weight, weighted, doubt = weight + added.weight, weighted + added.weighted, doubt + added.doubt
        if removed is not None:
            weight, weighted, doubt = weight - removed.weight, weighted - removed.weighted, doubt - removed.doubt
        self._sums[workload] = weight, weighted, doubt
        self._costs.pop(workload, None)

    def _median_of(self, workload: str, but: str) -> float | None:
        """Return the median of all nodes that know a workload; None if they are too few."""
        means = self._means[workload]
        if len(means) < _FEWEST:
            return None
        median, left = self._median.get(workload, (0.0, 0))
        if left <= 0:  # rarely enough that it costs little more than the updates themselves
            median, left = self._note_median(workload, but)
        self._median[workload] = median, left - 1
        return median

    def _note_median(self, workload: str, but: str = "") -> tuple[float, int]:
        """Compute the median of a workload, and clip what all nodes but one have reported."""
        means = self._means[workload].values()
        found = self._median[workload] = statistics.median(means), len(means) // 4
        self._clip_again(workload, found[0], but)
        return found

    def _clip_again(self, workload: str, median: float, but: str) -> None:
        """Clip what other nodes have reported: who reported before the others is not believed more."""
        far, (low, high) = self._far[workload], self._neighbourhood(median)
        changing = [node for node, mean in self._reported[workload].items() if not low <= mean <= high or node in far]
        for node in changing:
            if node != but:
                known = self._of_node[node][workload]
                again = self._evidence(node, workload, known.reported, median)
                if again != known:
                    self._of_node[node][workload] = again
                    self._sum(workload, again, known)

    def _neighbourhood(self, median: float | None) -> tuple[float, float]:
        if median is None:
            return -math.inf, math.inf
        # Pods that most nodes see doing nothing may cost no more either than what a node can tell from nothing.
        return median / APART, APART * max(median, self._finest)
