"""Reservations: which pods are on their way to which node (thesis §3.6).

A pod is in flight from the moment it was given a node until `scheduler` releases it. Every pod is counted once,
whatever order the calls come in: the latest reservation of a pod wins, and releasing an unknown pod changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping


class Ledger:
    """Counts pods in flight per node.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.reserve("pod-a", "node-1")
    >>> ledger.reserve("pod-a", "node-2")   # scheduled anew
    >>> ledger.reserved("node-1"), ledger.reserved("node-2")
    (0, 1)
    >>> ledger.release("pod-a"), ledger.release("pod-a")
    ('node-2', None)
    """

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._count: dict[str, int] = {}
        self._pods: dict[str, dict[str, None]] = {}
        """The same pods by node; a set would have another order in every process."""

    def __len__(self) -> int:
        return len(self._node_of)

    def reserve(self, pod: str, node: str) -> None:
        """Note that `pod` (its UID) is on its way to `node`, and to no other."""
        self.release(pod)
        self._node_of[pod] = node
        self._count[node] = self._count.get(node, 0) + 1
        self._pods.setdefault(node, {})[pod] = None

    def release(self, pod: str) -> str | None:
        """Forget the reservation of `pod` and return its node, or None if it had none."""
        node = self._node_of.pop(pod, None)
        if node is not None:
            self._count[node] -= 1
            del self._pods[node][pod]
            if not self._count[node]:
                del self._count[node], self._pods[node]
        return node

    def node_of(self, pod: str) -> str | None:
        """The node that `pod` is on its way to, if any."""
        return self._node_of.get(pod)

    def reserved(self, node: str) -> int:
        """Number of pods on their way to `node`."""
        return self._count.get(node, 0)

    def pods(self, node: str) -> list[str]:
        """The pods on their way to `node`."""
        return list(self._pods.get(node, ()))

    def counts(self) -> Mapping[str, int]:
        """Number of pods on their way, by node; nodes without any are left out."""
        return self._count
