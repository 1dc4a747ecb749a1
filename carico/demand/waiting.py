"""The pods that wait for a node. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Kind(NamedTuple):
    """Pods of the same kind cost the same and may go to the same nodes."""

    workload: str
    """Determines what a pod costs."""
    placement: str = ""
    """Determines where a pod may go: pods of the same placement have the same candidates."""
    critical: bool = False
    """Whether the pods are latency-critical."""


class Waiting:
    """Pods that have no node yet, by kind.

    Examples
    --------
    >>> waiting = Waiting()
    >>> waiting.add("pod-a", Kind("pi"))
    >>> waiting.add("pod-b", Kind("pi", "zone=a"))
    >>> waiting.remove("pod-a")
    >>> list(waiting.kinds)
    [Kind(workload='pi', placement='zone=a', critical=False)]
    """

    def __init__(self) -> None:
        self._pods: dict[str, Kind] = {}
        self.kinds: Counter[Kind] = Counter()
        """Number of waiting pods of each kind; the kind that has waited the longest comes first."""
        self.refused: set[str] = set()
        """The pods that were refused because no node had room."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, uid: str, kind: Kind) -> None:
        """Note that a pod waits; a pod that waits already is not counted again."""
        if uid not in self._pods:
            self._pods[uid] = kind
            self.kinds[kind] += 1

    def remove(self, uid: str) -> None:
        """Note that a pod does not wait any more: it has a node, or is gone."""
        self.refused.discard(uid)
        kind = self._pods.pop(uid, None)
        if kind is None:
            return
        self.kinds[kind] -= 1
        if not self.kinds[kind]:
            del self.kinds[kind]
