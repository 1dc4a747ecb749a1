"""How many pods of each workload a node ran, on average, over exactly the time that its telemetry covers. Pure.

Telemetry is a mean over an interval. If the numbers of pods are means over the same interval, demand is linear in them
even if pods start or stop within it, so that nodes go on learning during churn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from carico.errors import InvalidInput

CHURN = "(starting and stopping)"
"""A workload for the CPU time that the container runtime uses for a moment after a pod has started or stopped."""


class PodCounts:
    """Counts the pods of one node.

    Parameters
    ----------
    churn_s : float
        How long a pod that has started or stopped counts as one of the workload `CHURN`, seconds.
    since : float
        Where the first interval begins, seconds.

    Examples
    --------
    >>> counts = PodCounts(churn_s=0.0, since=0.0)
    >>> counts.started("pod-a", "pi", at=0.5)
    >>> counts.means(until=2.0)
    {'pi': 0.75}
    >>> counts.means(until=3.0)
    {'pi': 1.0}
    """

    def __init__(self, churn_s: float, since: float) -> None:
        self._churn_s = churn_s
        self._since = since
        self._counts: defaultdict[str, int] = defaultdict(int)
        """Number of pods at the beginning of the interval, by workload."""
        self._changes: list[tuple[float, str | None, int]] = []
        """Changes since then, and earlier ones whose churn goes on: the time, the workload, and the change."""
        self._running: dict[str, tuple[str | None, float]] = {}

    @property
    def running(self) -> Mapping[str, str | None]:
        """The workload of every pod that runs now, by the pod's UID; None for the platform's pods."""
        return {uid: workload for uid, (workload, _) in self._running.items()}

    @property
    def now(self) -> dict[str, int]:
        """Number of pods that run now, by workload."""
        numbers: defaultdict[str, int] = defaultdict(int)
        for workload, _ in self._running.values():
            if workload is not None:
                numbers[workload] += 1
        return dict(numbers)

    def since(self, uid: str) -> float:
        """When a running pod started, or was found to run, seconds."""
        return self._running[uid][1]

    def eldest(self) -> dict[str, float]:
        """When the oldest running pod of each workload started, seconds."""
        eldest: dict[str, float] = {}
        for workload, at in self._running.values():
            if workload is not None:
                eldest[workload] = min(eldest.get(workload, at), at)
        return eldest

    def started(self, uid: str, workload: str | None, at: float) -> None:
        """Note that a pod has started; a pod that runs already is not counted again."""
        if uid not in self._running:
            self._running[uid] = workload, at
            self._changes.append((at, workload, +1))

    def found(self, uid: str, workload: str | None) -> None:
        """Note that a pod runs that was there before: it counts from the beginning of the present interval.

        Had it started within the interval, the same demand with fewer pods would show that pods cost nothing.
        """
        if uid not in self._running:
            self._running[uid] = workload, self._since
            if workload is not None:
                self._counts[workload] += 1

    def identified(self, uid: str, workload: str) -> None:
        """Correct the workload of a running pod, from the beginning of the present interval on."""
        before, at = self._running.get(uid, (None, 0.0))
        if before is None or before == workload:
            return
        self._running[uid] = workload, at
        start = (at, before, +1)
        if start in self._changes:
            self._changes[self._changes.index(start)] = (at, workload, +1)
            return
        self._counts[workload] += 1
        self._counts[before] -= 1
        if not self._counts[before]:
            del self._counts[before]

    def stopped(self, uid: str, at: float) -> str | None:
        """Note that a pod is gone, and return its workload; an unknown pod changes nothing."""
        workload, _ = self._running.pop(uid, (None, at))
        if workload is not None:
            self._changes.append((at, workload, -1))
        return workload

    def means(self, until: float) -> dict[str, float]:
        """Return the mean number of pods from the end of the last interval to `until`, and begin a new interval.

        A change that is reported late counts from the beginning of the interval in which it is reported; a change later
        than `until` counts in the next interval.

        Raises
        ------
        InvalidInput
            If the interval is empty.
        """
        length = until - self._since
        if not length > 0:
            raise InvalidInput(f"an interval must end after it began, got {self._since} s to {until} s")
        means: defaultdict[str, float] = defaultdict(float, self._counts)
        later: list[tuple[float, str | None, int]] = []
        for at, workload, change in self._changes:
            if at > until:
                later.append((at, workload, change))
                continue
            churns = min(at + self._churn_s, until) - max(at, self._since)
            if churns > 0:
                means[CHURN] += churns / length
            if workload is not None and change:
                means[workload] += change * (until - max(at, self._since)) / length
                self._counts[workload] += change
                if not self._counts[workload]:
                    del self._counts[workload]
            if at + self._churn_s > until:
                later.append((at, None, 0))
        self._changes, self._since = later, until
        return {workload: float(mean) for workload, mean in means.items() if mean > 0}
