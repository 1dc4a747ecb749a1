"""CARICO's scheduling decision: filter, score and reserve on Pod-Capacity less reservations (thesis §3.6). Pure.

The host (the HTTP extender, or the simulated cluster's scheduling framework) asks; nothing here talks to anyone. A
decision is one sweep over arrays; names and reasons are put together only for who asks, for a cluster has thousands of
nodes and a decision mostly needs one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np

from carico.arrays import FloatArray, IntArray
from carico.errors import InvalidInput
from carico.scheduling.ledger import Ledger


class NodeVerdict(NamedTuple):
    """What was known of a node when a pod was decided on."""

    node: str
    pod_capacity: float | None
    """Pods, as the node last reported; None if it never did."""
    reserved: int
    """Pods on their way to the node."""
    age_s: float = 0.0
    """Seconds since the node reported."""
    stale: bool = False
    """Whether that is too long ago to be believed."""

    @property
    def available(self) -> float:
        """Pod-Capacity less reservations; what the filter tests and the score is."""
        return -math.inf if self.pod_capacity is None or self.stale else self.pod_capacity - self.reserved

    @property
    def feasible(self) -> bool:
        """Whether the node has room for one more pod."""
        return self.available >= 1

    @property
    def reason(self) -> str:
        """Why the node was refused; empty if it was not."""
        if self.feasible:
            return ""
        if self.pod_capacity is None:
            return "no capacity reported yet"
        if self.stale:
            return f"last report {self.age_s:.0f} s ago"
        # Rounded down: 0.999 must not read as the 1.00 that would do.
        room = math.floor(100 * self.available) / 100
        return f"capacity {room + self.reserved:.2f} - {self.reserved} reserved = {room:.2f} pods, needs 1"


class Decision:
    """A filter's outcome with its reasons: one verdict per candidate, in the order asked.

    Parameters
    ----------
    nodes : sequence of str
        The n candidates.
    pod_capacity : array, (n,)
        Pods; NaN where nothing was reported.
    reserved : array of int, (n,)
        Pods on their way.
    age_s : array, (n,)
        Seconds since the node reported.
    stale_after_s : float
        The age from which on a report is not believed.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        pod_capacity: FloatArray,
        reserved: IntArray,
        age_s: FloatArray,
        stale_after_s: float,
    ) -> None:
        self.nodes = nodes
        self._known = (pod_capacity, reserved, age_s)
        self.stale_after_s = stale_after_s
        self._stale = age_s > stale_after_s
        available = pod_capacity - reserved
        available[self._stale | np.isnan(available)] = -np.inf
        self.available: FloatArray = available
        """Pods that each candidate has room for; minus infinity where that is not known. (n,)"""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self.verdicts == other.verdicts

    __hash__ = None  # type: ignore[assignment]  # as of any value that holds arrays

    def verdict(self, index: int) -> NodeVerdict:
        """What is known of a candidate."""
        capacity, reserved, age_s = (column[index].item() for column in self._known)
        if math.isnan(capacity):
            return NodeVerdict(self.nodes[index], None, reserved)
        return NodeVerdict(self.nodes[index], capacity, reserved, age_s, bool(self._stale[index]))

    @cached_property
    def verdicts(self) -> tuple[NodeVerdict, ...]:
        """All candidates."""
        columns = (column.tolist() for column in (*self._known, self._stale))
        return tuple(
            NodeVerdict(node, None, reserved)
            if math.isnan(capacity)
            else NodeVerdict(node, capacity, reserved, age_s, stale)
            for node, capacity, reserved, age_s, stale in zip(self.nodes, *columns, strict=True)
        )

    @property
    def feasible(self) -> tuple[NodeVerdict, ...]:
        """The candidates with room."""
        return tuple(verdict for verdict in self.verdicts if verdict.feasible)

    @property
    def refused(self) -> dict[str, str]:
        """Why each of the others was refused, by node."""
        out = np.flatnonzero(~(self.available >= 1))
        available = self.available[out]
        pod_capacity, reserved, age_s = (column[out] for column in self._known)
        # Thousands of full nodes share few texts: what a text shows is its key, and each is written once.
        key = np.empty(len(out), np.complex128)
        told = np.isfinite(available)
        key.real = np.where(told, np.floor(100 * np.where(told, available, 0.0)), np.nan_to_num(np.rint(age_s), nan=-1))
        key.imag = np.where(told, reserved, np.where(np.isnan(pod_capacity), -1, -2))
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        texts = [self.verdict(index).reason for index in out[first].tolist()]
        return {self.nodes[index]: texts[number] for index, number in zip(out.tolist(), group.tolist(), strict=True)}

    def among_best(self, limit: int) -> Decision:
        """Return what is left of the decision if only the `limit` best candidates had been asked about."""
        if len(self.nodes) <= limit:
            return self
        last = np.partition(self.available, -limit)[-limit]
        better = np.flatnonzero(self.available > last)
        # Of equals the first, so that `best` is among them.
        rows = np.sort(np.concatenate((better, np.flatnonzero(self.available == last)[: limit - len(better)])))
        pod_capacity, reserved, age_s = self._known
        nodes = [self.nodes[row] for row in rows.tolist()]
        return Decision(nodes, pod_capacity[rows], reserved[rows], age_s[rows], self.stale_after_s)

    def kinds(self) -> Counter[str]:
        """Count the candidates by what they were found to be."""
        unknown, room = np.isnan(self._known[0]), self.available >= 1
        stale = self._stale & ~unknown
        masks = {
            "no capacity reported yet": unknown,
            "last report too old": stale,
            "has room": room,
            "capacity too small": ~(unknown | stale | room),
        }
        return Counter({kind: int(np.count_nonzero(mask)) for kind, mask in masks.items()})

    @property
    def best(self) -> str | None:
        """The candidate with the highest score, the first of equals; None if no candidate has room."""
        index = self.best_index
        return None if index is None else self.nodes[index]

    @property
    def best_index(self) -> int | None:
        """Where `best` is among the candidates."""
        if not len(self.available):
            return None
        index = int(self.available.argmax())
        return index if self.available[index] >= 1 else None


class CaricoPlugin:
    """Filters, scores and reserves.

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
        self._row: dict[str, int] = {}
        self._free: list[int] = []
        # Rows: Pod-Capacity, time of the report. The last column is nobody's and stays unknown: -1 is "no such node".
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
        """Drop what a node reported, for instance because it left the cluster."""
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
        """The nodes that reported."""
        return list(self._row)

    def __len__(self) -> int:
        """Number of nodes that reported."""
        return len(self._row)

    def filter(self, nodes: Sequence[str], now: float = 0.0) -> Decision:
        """Judge the candidates: a node with Pod-Capacity - reserved < 1 is out.

        Parameters
        ----------
        nodes : sequence of str
            The candidates.
        now : float
            The time, seconds, on the clock of the reports.
        """
        rows = np.fromiter(map(self._row.get, nodes, repeat(-1)), np.intp, len(nodes))
        pod_capacity, reported_at = (column[rows] for column in self._reports)
        return Decision(nodes, pod_capacity, self._reserved(nodes, rows), now - reported_at, self.stale_after_s)

    def score(self, node: str, now: float = 0.0) -> float:
        """Pod-Capacity - reserved: nodes that can fit more pods come first."""
        row = self._row.get(node, -1)
        capacity, reported_at = self._reports[:, row].tolist()
        if math.isnan(capacity) or now - reported_at > self.stale_after_s:
            return -math.inf
        return float(capacity - self.ledger.reserved(node))

    def reserve(self, pod: str, node: str) -> None:
        """Count `pod` against `node` until `release`."""
        self.ledger.reserve(pod, node)

    def release(self, pod: str) -> None:
        """Forget the reservation of `pod`: it left Pending, was deleted, or could not be bound."""
        self.ledger.release(pod)

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
        known = np.fromiter(map(self._row.get, counts, repeat(-1)), np.intp, len(counts))
        by_row = np.zeros(self._reports.shape[1], np.int64)
        by_row[known] = np.fromiter(counts.values(), np.int64, len(counts))
        by_row[-1] = 0
        reserved: IntArray = by_row[rows]
        if (known == -1).any():  # on their way to nodes that have not reported, as after a restart
            for index in np.flatnonzero(rows == -1).tolist():
                reserved[index] = counts.get(nodes[index], 0)
        return reserved
