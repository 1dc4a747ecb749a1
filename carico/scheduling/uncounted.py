"""When a running pod that its node's reports do not count gives its place back. Pure.

Most running pods are counted by the next report of their node. Some never are: agents leave out pods of the platform,
and older agents do not say which pods they count. So a place is given back when its pod has run for `UNCOUNTED_S` and
is still not counted. A report may be late, and then it says nothing about pods that started meanwhile: the node must
have reported for the same time without a gap.
"""

from __future__ import annotations

UNCOUNTED_S = 10.0
"""A pod that has run for this long without being counted is one that the agent leaves out."""


class Uncounted:
    """Running pods that no report of their node has counted yet; times are seconds on one clock.

    Parameters
    ----------
    stale_after_s : float
        A longer time between two reports of a node is a gap.

    Examples
    --------
    >>> pods = Uncounted(stale_after_s=5.0)
    >>> pods.runs("pod-a", now=0.0)
    >>> for second in range(1, 11):
    ...     pods.reported("node-0", now=float(second))
    >>> pods.left_out("pod-a", "node-0", now=10.0), pods.left_out("pod-a", "node-0", now=11.0)
    (False, True)
    """

    def __init__(self, stale_after_s: float) -> None:
        self._stale_after_s = stale_after_s
        self._since: dict[str, float] = {}
        """Since when the pods run, by UID."""
        self._reports: dict[str, tuple[float, float]] = {}
        """Since when each node has reported without a gap, and when it last reported."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._since

    def runs(self, uid: str, now: float) -> None:
        """Note that a pod runs; the first time counts."""
        self._since.setdefault(uid, now)

    def over(self, uid: str) -> None:
        """Forget a pod, because a report counts it, or it is gone."""
        self._since.pop(uid, None)

    def reported(self, node: str, now: float) -> None:
        """Note a report of a node."""
        since, last = self._reports.get(node, (now, now))
        self._reports[node] = (since if now - last <= self._stale_after_s else now), now

    def left_out(self, uid: str, node: str, now: float) -> bool:
        """Return whether the agent of a node that has reported now leaves this pod out."""
        return now - max(self._since.get(uid, now), self._reports[node][0]) >= UNCOUNTED_S

    def forget(self, node: str) -> None:
        """Forget a node that has left the cluster."""
        self._reports.pop(node, None)
