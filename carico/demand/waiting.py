"""The pods that wait for a node. Pure."""

from __future__ import annotations

from collections import Counter


class Waiting:
    """Pods that have no node yet, by workload.

    Examples
    --------
    >>> waiting = Waiting()
    >>> waiting.add("pod-a", "pi")
    >>> waiting.add("pod-b", "pi")
    >>> waiting.remove("pod-a")
    >>> waiting.workloads
    Counter({'pi': 1})
    """

    def __init__(self) -> None:
        self._pods: dict[str, str] = {}
        self.workloads: Counter[str] = Counter()
        """Number of pods of each workload that wait."""
        self.refused: set[str] = set()
        """The pods that were told that no node has room."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, uid: str, workload: str) -> None:
        """Note that a pod waits; one that waits already is not counted again."""
        if uid not in self._pods:
            self._pods[uid] = workload
            self.workloads[workload] += 1

    def remove(self, uid: str) -> None:
        """Note that a pod does not wait any more: it has a node, or is gone."""
        self.refused.discard(uid)
        workload = self._pods.pop(uid, None)
        if workload is not None:
            self.workloads[workload] -= 1
            if not self.workloads[workload]:
                del self.workloads[workload]
