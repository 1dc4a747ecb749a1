"""What a pod of a workload costs, by what all nodes have learned. Pure.

Every node's evidence is weighted by its precision. A node's estimate is what is assumed of every workload, corrected by
what the node has seen: what is assumed counts once, what was seen counts for every node.
"""

from __future__ import annotations

from collections.abc import Mapping

from carico.demand.regression import Estimate


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
        self._finest = finest**2
        self._of_node: dict[str, dict[str, tuple[float, float]]] = {}
        """What each node has seen: precision, and precision x mean, beyond what is assumed."""
        self._sums: dict[str, list[float]] = {}
        """Of all nodes, and of how many."""

    def update(self, node: str, costs: Mapping[str, Estimate]) -> None:
        """Replace what a node has learned."""
        mean, variance = self.first
        seen = {}
        for workload, cost in costs.items():
            doubt = max(cost.variance, self._finest)
            if doubt < variance:
                seen[workload] = (1 / doubt - 1 / variance, cost.mean / doubt - mean / variance)
        before = self._of_node.get(node, {})
        for workload in before.keys() | seen.keys():
            sums = self._sums.setdefault(workload, [0.0, 0.0, 0.0])
            for sign, evidence in ((-1, before.get(workload)), (+1, seen.get(workload))):
                if evidence is not None:
                    sums[0] += sign * evidence[0]
                    sums[1] += sign * evidence[1]
                    sums[2] += sign
            if not sums[2]:
                del self._sums[workload]
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
        precision = 1 / variance + max(sums[0], 0.0)
        return Estimate(max((mean / variance + sums[1]) / precision, 0.0), 1 / precision)
