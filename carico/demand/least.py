"""What a pod of a workload costs at least, as long as no node knows more. Pure.

A node whose pods may still grow says what they hold already, and how much it doubts that they will hold no more. All
nodes that say so are heard: a pod costs what a quarter of them exceed. So a few large pods are enough to keep others of
their workload away from all nodes, and a minority of liars is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from carico.demand.regression import Estimate

_RANK = 0.75


class Least:
    """What each node says that a pod of each workload costs at least.

    Examples
    --------
    >>> least = Least()
    >>> for number, gib in enumerate((0.5, 0.5, 0.5, 3.0, 4.0)):
    ...     least.note(f"node-{number}", "mlp", Estimate(gib, 1.0))
    >>> least.cost("mlp"), least.cost("pi")
    (Estimate(mean=3.0, variance=1.0), None)
    """

    def __init__(self) -> None:
        self._said: defaultdict[str, dict[str, Estimate]] = defaultdict(dict)
        """By workload and node."""
        self._workloads: defaultdict[str, set[str]] = defaultdict(set)
        """The same workloads, by node."""
        self._costs: dict[str, tuple[Estimate, int]] = {}
        """The cost of a workload, and after how many more notes it is computed again."""

    def note(self, node: str, workload: str, cost: Estimate) -> None:
        """Note what a node says."""
        if self._said[workload].get(node) != cost:
            self._said[workload][node] = cost
            self._workloads[node].add(workload)
            self._count(workload)

    def drop(self, node: str, workload: str) -> None:
        """Drop what a node said of a workload, if it did."""
        if workload not in self._workloads.get(node, ()):
            return
        self._workloads[node].remove(workload)
        if not self._workloads[node]:
            del self._workloads[node]
        del self._said[workload][node]
        self._count(workload)
        if not self._said[workload]:
            del self._said[workload]
            self._costs.pop(workload, None)

    def keep(self, node: str, workloads: Container[str]) -> None:
        """Drop what a node said of other workloads than these."""
        for workload in [name for name in self._workloads.get(node, ()) if name not in workloads]:
            self.drop(node, workload)

    def cost(self, workload: str) -> Estimate | None:
        """Return what a pod costs at least; None if no node says anything."""
        said = self._said.get(workload)
        if said is None:
            return None
        cost, left = self._costs.get(workload, (None, 0))
        if cost is None or left <= 0:  # rarely enough that it costs little more than the notes themselves
            cost = sorted(said.values())[int(_RANK * (len(said) - 1))]
            self._costs[workload] = cost, 1 + len(said) // 4
        return cost

    def _count(self, workload: str) -> None:
        if workload in self._costs:
            cost, left = self._costs[workload]
            self._costs[workload] = cost, left - 1
