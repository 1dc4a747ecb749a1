"""Which nodes' loads depend on what workloads cost at all nodes together, and when loads are summed up again. Pure.

A load contains the pooled cost of pods that the node's report does not count yet, and of those whose demand the node
has not observed. So the report of one node may change the loads of many others.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

EXPOSED = 0.25
"""A node's load depends on a workload's cost if it contains that cost more than so many times."""
MOVED = 0.1
MOVED_CORES = 0.02
"""Loads are summed up again once a cost has changed by more than this share and so many cores."""
MOST_PER_S = 1000.0
"""So many loads are summed up again in a second, on average, and at most the nodes of one workload more at a time: a
node whose word changes all the time does not keep the scheduler busy."""


class Dependence:
    """Which nodes depend on which workloads' costs.

    Parameters
    ----------
    coming : mapping
        The numbers of pods in flight, by workload and node; it is read, and never changed.

    Examples
    --------
    >>> dependence = Dependence({"pi": Counter({"node-3": 2})})
    >>> dependence.note("node-7", {"pi": 1.0, "web": 0.1})
    >>> list(dependence.to_sum_up(["pi", "web"], lambda workload: 0.5, now=0.0))
    ['node-7', 'node-3']
    >>> list(dependence.to_sum_up(["pi", "web"], lambda workload: 0.5, now=1.0))
    []
    """

    def __init__(self, coming: Mapping[str, Counter[str]]) -> None:
        self._coming = coming
        self._of_node: dict[str, set[str]] = {}
        self._nodes: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Workloads of which a node has pods whose demand it has not observed yet, by node, and the other way round."""
        self._summed_up: dict[str, float] = {}
        """The pooled costs with which the loads were summed up last, by workload; cores."""
        self._allowance = MOST_PER_S
        """How many more loads may be summed up at present; negative if it were too many the last time."""
        self._allowed_at = -math.inf
        self._put_off: dict[str, None] = {}
        """Workloads that were not looked at because too many loads had been summed up; they come first next time."""

    def note(self, node: str, exposed: Mapping[str, float]) -> None:
        """Note how many times a node's load contains the cost of each workload, by its latest report."""
        before = self._of_node.get(node, set())
        now = {name for name, pods in exposed.items() if pods > EXPOSED}
        for name in before - now:
            del self._nodes[name][node]
            if not self._nodes[name]:
                del self._nodes[name]
        for name in now - before:
            self._nodes[name][node] = None
        self._of_node[node] = now

    def forget(self, node: str) -> None:
        """Drop a node."""
        self.note(node, {})
        del self._of_node[node]

    def forget_costs(self) -> None:
        """Drop the costs of workloads on which no load depends any more: no report may ever name them again."""
        self._summed_up = {name: mean for name, mean in self._summed_up.items() if self._is_depended_on(name)}
        self._put_off = dict.fromkeys(filter(self._is_depended_on, self._put_off))

    def to_sum_up(self, workloads: Iterable[str], cost: Callable[[str], float], now: float) -> dict[str, None]:
        """Return the nodes whose loads have changed because the pooled costs of some workloads have.

        If there have been too many lately, some or all are put off to a later report, of whatever workload.
        """
        self._allowance = min(self._allowance + MOST_PER_S * (now - self._allowed_at), MOST_PER_S)
        self._allowed_at = now
        nodes: dict[str, None] = {}
        self._put_off |= dict.fromkeys(filter(self._is_depended_on, workloads))
        while self._put_off and len(nodes) < self._allowance:
            workload = next(iter(self._put_off))
            del self._put_off[workload]
            mean = cost(workload)
            if not abs(mean - self._summed_up.get(workload, math.inf)) <= MOVED * mean + MOVED_CORES:
                self._summed_up[workload] = mean
                nodes |= self._nodes.get(workload, {}) | dict.fromkeys(self._coming.get(workload, ()))
        self._allowance -= len(nodes)
        return nodes

    def _is_depended_on(self, workload: str) -> bool:
        return workload in self._nodes or workload in self._coming
