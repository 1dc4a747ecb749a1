"""CARICO's scheduling decision: filter, score and reserve on Pod-Capacity less reservations (thesis §3.6). Pure.

The host (the HTTP extender, or the simulated cluster's scheduling framework) asks; nothing here talks to anyone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from carico.errors import InvalidInput
from carico.scheduling.ledger import Ledger


class NodeVerdict(NamedTuple):
    """What was known of a node when a pod was decided on."""

    node: str
    pod_capacity: float | None
    """Pods, as the node last reported; None if it never did."""
    reserved: int
    """Pods on their way to the node."""

    @property
    def available(self) -> float:
        """Pod-Capacity less reservations; what the filter tests and the score is."""
        return -math.inf if self.pod_capacity is None else self.pod_capacity - self.reserved

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
        # Rounded down: 0.999 must not read as the 1.00 that would do.
        room = math.floor(100 * self.available) / 100
        return f"capacity {room + self.reserved:.2f} - {self.reserved} reserved = {room:.2f} pods, needs 1"


@dataclass(frozen=True)
class Decision:
    """A filter's outcome with its reasons: one verdict per candidate, in the order asked."""

    verdicts: tuple[NodeVerdict, ...]

    @property
    def feasible(self) -> tuple[NodeVerdict, ...]:
        """The candidates with room."""
        return tuple(verdict for verdict in self.verdicts if verdict.feasible)

    @property
    def refused(self) -> dict[str, str]:
        """Why each of the others was refused, by node."""
        return {verdict.node: verdict.reason for verdict in self.verdicts if not verdict.feasible}

    @property
    def best(self) -> str | None:
        """The candidate with the highest score, the first of equals; None if no candidate has room."""
        feasible = self.feasible
        return max(feasible, key=lambda verdict: verdict.available).node if feasible else None


class CaricoPlugin:
    """Filters, scores and reserves.

    Examples
    --------
    >>> plugin = CaricoPlugin()
    >>> plugin.report("node-0", 2.5)
    >>> plugin.reserve("pod-a", "node-0")
    >>> decision = plugin.filter(["node-0", "node-1"])
    >>> decision.best, decision.refused
    ('node-0', {'node-1': 'no capacity reported yet'})
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._capacity: dict[str, float] = {}

    def report(self, node: str, pod_capacity: float) -> None:
        """Take in a node's latest Pod-Capacity.

        Raises
        ------
        InvalidInput
            If it is negative or not finite; the last valid report stays in force.
        """
        if not (math.isfinite(pod_capacity) and pod_capacity >= 0):
            raise InvalidInput(f"{node}: pod_capacity must be finite and not negative, got {pod_capacity}")
        self._capacity[node] = float(pod_capacity)

    def forget(self, node: str) -> None:
        """Drop what a node reported, for instance because it left the cluster."""
        self._capacity.pop(node, None)

    def filter(self, nodes: Sequence[str]) -> Decision:
        """Judge the candidates: a node with Pod-Capacity - reserved < 1 is out."""
        capacity, reserved = self._capacity, self.ledger.reserved
        return Decision(tuple(NodeVerdict(node, capacity.get(node), reserved(node)) for node in nodes))

    def score(self, node: str) -> float:
        """Pod-Capacity - reserved: nodes that can fit more pods come first."""
        return NodeVerdict(node, self._capacity.get(node), self.ledger.reserved(node)).available

    def reserve(self, pod: str, node: str) -> None:
        """Count `pod` against `node` until `release`."""
        self.ledger.reserve(pod, node)

    def release(self, pod: str) -> None:
        """Forget the reservation of `pod`: it left Pending, was deleted, or could not be bound."""
        self.ledger.release(pod)
