"""CARICO's scheduling decision: filter, score and reserve on Pod-Capacity less reservations (thesis §3.6). Pure.

Its host (the HTTP extender, or the simulated cluster's scheduling framework) calls the plugin, never the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from carico.arrays import FloatArray, IntArray
from carico.errors import InvalidInput
from carico.scheduling.decision import Decision
from carico.scheduling.ledger import Ledger
from carico.scheduling.node_counts import NodeCounts
from carico.scheduling.rows import NodeRows


class CaricoPlugin:
    """Filters nodes, scores them, and reserves places for pods.

    Parameters
    ----------
    stale_after_s : float
        A node whose report is older is refused; by default no report is ever too old.

    Examples
    --------
    >>> plugin = CaricoPlugin()
    >>> plugin.report("node-0", 2.5)
    >>> plugin.reserve("pod-a", "node-0")
    >>> decision = plugin.filter(["node-0", "node-1"])
    >>> decision.best, decision.refused
    ('node-0', {'node-1': 'no capacity reported yet'})
    """

    def __init__(self, stale_after_s: float = math.inf) -> None:
        self.ledger = Ledger()
        self.stale_after_s = stale_after_s
        self._row = NodeRows()
        self._free: list[int] = []
        # Rows: Pod-Capacity, time of the report. The last column belongs to no node and stays NaN: column -1 stands for
        # every node that has not reported.
        self._reports: FloatArray = np.full((2, 1), np.nan)

    def report(self, node: str, pod_capacity: float, at: float = 0.0) -> None:
        """Take in a node's latest Pod-Capacity.

        Parameters
        ----------
        node : str
        pod_capacity : float
            Pods.
        at : float
            When the report came in, seconds.

        Raises
        ------
        InvalidInput
            If it is negative or not finite; the last valid report stays in force.
        """
        if not (math.isfinite(pod_capacity) and pod_capacity >= 0):
            raise InvalidInput(f"{node}: pod_capacity must be finite and not negative, got {pod_capacity}")
        row = self._row.get(node)
        if row is None:
            row = self._new_row(node)
        self._reports[:, row] = pod_capacity, at

    def forget(self, node: str) -> None:
        """Drop a node's report, for instance because the node left the cluster."""
        row = self._row.pop(node, None)
        if row is not None:
            self._reports[:, row] = np.nan
            self._free.append(row)

    def silent(self, now: float, since_s: float) -> list[str]:
        """Return the nodes that have not reported for more than `since_s` seconds."""
        quiet = now - self._reports[1] > since_s
        return [node for node, row in self._row.items() if quiet[row]] if quiet.any() else []

    @property
    def nodes(self) -> list[str]:
        """The nodes that have reported."""
        return list(self._row)

    def __len__(self) -> int:
        """Number of nodes that have reported."""
        return len(self._row)

    def filter(self, nodes: Sequence[str], now: float = 0.0) -> Decision:
        """Judge the candidates: a node with Pod-Capacity - reserved < 1 is refused.

        Parameters
        ----------
        nodes : sequence of str
            The candidates.
        now : float
            The time, seconds, on the clock of the reports.
        """
        rows = self._row.of(nodes)
        pod_capacity, reported_at = (column[rows] for column in self._reports)
        return Decision(
            nodes, pod_capacity, self._reserved(nodes, rows), now - reported_at, stale_after_s=self.stale_after_s
        )

    def counts(self, now: float) -> NodeCounts:
        """Count the nodes that have reported; one has room if it would not be refused."""
        nodes = self.nodes
        rows = self._row.of(nodes)
        pod_capacity, reported_at = (column[rows] for column in self._reports)
        has_room = pod_capacity - self._reserved(nodes, rows) >= 1
        return NodeCounts.of(now - reported_at, has_room, self.stale_after_s)

    def score(self, node: str, now: float = 0.0) -> float:
        """Pod-Capacity - reserved: nodes that can fit more pods come first."""
        row = self._row.get(node, -1)
        capacity, reported_at = self._reports[:, row].tolist()
        if math.isnan(capacity) or now - reported_at > self.stale_after_s:
            return -math.inf
        return float(capacity - self.ledger.reserved(node))

    def reserve(self, pod: str, node: str) -> None:
        """Count `pod` (its UID) against `node` until `release`."""
        self.ledger.reserve(pod, node)

    def release(self, pod: str) -> str | None:
        """Forget the reservation of `pod` and return its node, or None if it had none."""
        return self.ledger.release(pod)

    def _new_row(self, node: str) -> int:
        if not self._free:
            size = self._reports.shape[1]
            self._reports = np.concatenate((self._reports, np.full((2, size), np.nan)), axis=1)
            self._free = list(range(2 * size - 2, size - 2, -1))
        row = self._row[node] = self._free.pop()
        return row

    def _reserved(self, nodes: Sequence[str], rows: IntArray) -> IntArray:
        """Pods on their way to each candidate."""
        counts = self.ledger.counts()
        known = self._row.of(list(counts))
        by_row = np.zeros(self._reports.shape[1], np.int64)
        by_row[known] = np.fromiter(counts.values(), np.int64, len(counts))
        by_row[-1] = 0
        reserved: IntArray = by_row[rows]
        if (known == -1).any():  # pods on their way to nodes that have not reported yet, as after a restart
            for index in np.flatnonzero(rows == -1).tolist():
                reserved[index] = counts.get(nodes[index], 0)
        return reserved
