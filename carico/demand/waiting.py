"""The pods that wait for a node, and how many more will come before long. Pure."""

from __future__ import annotations

import math
from collections import Counter

NEGLIGIBLE = 0.05
"""So few pods are not expected any more."""


class Waiting:
    """Pods that have no node yet, by workload.

    Parameters
    ----------
    foresight_s : float
        Pods are expected for so long at the rate of late, which is averaged over the same time; seconds.

    Examples
    --------
    >>> waiting = Waiting(foresight_s=5.0)
    >>> waiting.created("pod-a", "pi", now=0.0)
    >>> waiting.created("pod-b", "pi", now=0.0)
    >>> waiting.placed("pod-a")
    >>> waiting.workloads["pi"], waiting.expected(now=0.0)["pi"]
    (1, 3.0)
    """

    def __init__(self, foresight_s: float) -> None:
        self._foresight_s = foresight_s
        self._pods: dict[str, str] = {}
        self.workloads: Counter[str] = Counter()
        """Number of pods of each workload that wait."""
        self.refused: set[str] = set()
        """The pods that were told that no node has room."""
        self._arrivals: dict[str, float] = {}
        """Pods of each workload that arrived of late, fewer by a factor of e every `foresight_s`."""
        self._at = -math.inf

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def created(self, uid: str, workload: str, now: float) -> None:
        """Note that a pod was created."""
        if uid not in self._pods:
            self.back(uid, workload)
            self._fade(now)
            self._arrivals[workload] = self._arrivals.get(workload, 0.0) + 1

    def back(self, uid: str, workload: str) -> None:
        """Note that a pod waits, which is not a new one."""
        if uid not in self._pods:
            self._pods[uid] = workload
            self.workloads[workload] += 1

    def placed(self, uid: str) -> None:
        """Note that a pod does not wait any more: it has a node, or is gone."""
        self.refused.discard(uid)
        workload = self._pods.pop(uid, None)
        if workload is not None:
            self.workloads[workload] -= 1
            if not self.workloads[workload]:
                del self.workloads[workload]

    def expected(self, now: float) -> Counter[str]:
        """Number of pods of each workload that wait, or will within `foresight_s`."""
        self._fade(now)
        return self.workloads + Counter(self._arrivals)

    def _fade(self, now: float) -> None:
        elapsed_s, self._at = now - self._at, now
        kept = math.exp(-elapsed_s / self._foresight_s) if self._foresight_s and math.isfinite(elapsed_s) else 0.0
        self._arrivals = {
            workload: kept * number for workload, number in self._arrivals.items() if kept * number > NEGLIGIBLE
        }
