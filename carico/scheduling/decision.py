"""The outcome of filtering the nodes for a pod: a verdict on every node, and the best node (thesis §3.6). Pure.

A decision is one sweep over arrays. Names and reasons are assembled only on request: a cluster has thousands of nodes,
and most decisions need the name of only one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from carico.arrays import FloatArray, IntArray


class NodeVerdict(NamedTuple):
    """What was known about a node when a pod was decided on."""

    node: str
    pod_capacity: float | None
    """Pods, as the node last reported; None if it never did."""
    reserved: int
    """Pods on their way to the node."""
    age_s: float = 0.0
    """Seconds since the node reported."""
    stale: bool = False
    """Whether the report is too old to be believed."""

    @property
    def available(self) -> float:
        """Pod-Capacity less reservations, pods: what the filter tests, and the score."""
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
        # Rounded down: 0.999 must not read as 1.00, which would be enough.
        room = math.floor(100 * self.available) / 100
        return f"capacity {room + self.reserved:.2f} - {self.reserved} reserved = {room:.2f} pods, needs 1"


class Decision:
    """A filter's outcome with its reasons: one verdict per candidate, in the order of the candidates.

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
        An older report is not believed.
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
        """Pods that each candidate has room for; minus infinity where the room is not known. (n,)"""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self.verdicts == other.verdicts

    __hash__ = None  # type: ignore[assignment]  # as of any value that holds arrays

    def verdict(self, index: int) -> NodeVerdict:
        """Return the verdict on one candidate."""
        capacity, reserved, age_s = (column[index].item() for column in self._known)
        if math.isnan(capacity):
            return NodeVerdict(self.nodes[index], None, reserved)
        return NodeVerdict(self.nodes[index], capacity, reserved, age_s=age_s, stale=bool(self._stale[index]))

    @cached_property
    def verdicts(self) -> tuple[NodeVerdict, ...]:
        """The verdicts on all candidates."""
        columns = (column.tolist() for column in (*self._known, self._stale))
        return tuple(
            NodeVerdict(node, None, reserved)
            if math.isnan(capacity)
            else NodeVerdict(node, capacity, reserved, age_s=age_s, stale=stale)
            for node, capacity, reserved, age_s, stale in zip(self.nodes, *columns, strict=True)
        )

    @property
    def refused(self) -> dict[str, str]:
        """Why candidates without room were refused, by node."""
        out = np.flatnonzero(~(self.available >= 1))
        available = self.available[out]
        pod_capacity, reserved, age_s = (column[out] for column in self._known)
        # Thousands of full nodes share a few texts: each text is made once, and its key are the numbers that it shows.
        key = np.empty(len(out), np.complex128)
        known = np.isfinite(available)
        rooms = np.floor(100 * np.where(known, available, 0.0))
        key.real = np.where(known, rooms, np.nan_to_num(np.rint(age_s), nan=-1))
        key.imag = np.where(known, reserved, np.where(np.isnan(pod_capacity), -1, -2))
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        texts = [self.verdict(index).reason for index in out[first].tolist()]
        return {self.nodes[index]: texts[number] for index, number in zip(out.tolist(), group.tolist(), strict=True)}

    def among_best(self, limit: int) -> Decision:
        """Return the same decision with the `limit` best candidates only."""
        if len(self.nodes) <= limit:
            return self
        last = np.partition(self.available, -limit)[-limit]
        better = np.flatnonzero(self.available > last)
        # Of equal candidates the first, so that `best` is among them.
        rows = np.sort(np.concatenate((better, np.flatnonzero(self.available == last)[: limit - len(better)])))
        pod_capacity, reserved, age_s = self._known
        nodes = [self.nodes[row] for row in rows.tolist()]
        return Decision(nodes, pod_capacity[rows], reserved[rows], age_s[rows], stale_after_s=self.stale_after_s)

    def count_verdicts(self) -> Counter[str]:
        """Count the candidates by verdict."""
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
        """The candidate with the highest score, or the first of several; None if no candidate has room."""
        index = self.best_index
        return None if index is None else self.nodes[index]

    @property
    def best_index(self) -> int | None:
        """Index of `best` among the candidates."""
        if not len(self.available):
            return None
        index = int(self.available.argmax())
        return index if self.available[index] >= 1 else None
