"""Which running pods hold their places although no report of their node counts them, and for how long. Pure.

Most running pods are counted by the next report of their node. Where an agent learns late what runs, because the
process that copies the names of pods for it is down, for instance, no report says how late. So no clock ends the
reservation of a pod that an agent must count: it holds until the pod is counted or over, if need be for the pod's
life, and people are told (`overdue`).

A clock remains where nothing will ever count a pod. An agent may leave out some pods (`carico.podevents.source` says
which), and some agents do not say which pods they count. There a place is given back when its pod has run uncounted for
`UNCOUNTED_S`, and the node has reported for the same time without a gap: a report may be late, and then it says nothing
about pods that started meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

UNCOUNTED_S = 10.0
"""A pod that has run for this long without being counted is left out, if the agent may leave it out."""
OVERDUE_S = 60.0
"""A pod that has run for this long without being counted, though its agent must count it, is shown to people."""


class Overdue(NamedTuple):
    """A pod that has long run without being counted by its node, which reports and should count it."""

    uid: str
    node: str
    for_s: float
    """For how long it has run and its node has reported, seconds."""


@dataclass
class _Pod:
    node: str
    since: float
    """Since when it runs."""
    optional_since: float | None = None
    """Since when the agent may leave it out; None if it must count it."""


class _Reports(NamedTuple):
    since: float
    """Since when the node has reported without a gap, and alike."""
    last: float
    says: bool
    """Whether its reports say which pods they count."""


class Uncounted:
    """Running pods that no report of their node has counted yet; times are seconds on one clock.

    Parameters
    ----------
    stale_after_s : float
        A longer time between two reports of a node is a gap.

    Examples
    --------
    >>> pods = Uncounted(stale_after_s=5.0)
    >>> pods.runs("pod-a", "node-0", now=0.0)
    >>> pods.runs("pod-b", "node-0", now=0.0, optional=True)
    >>> for second in range(1, 62):
    ...     pods.reported("node-0", now=float(second), says=True)
    >>> [pods.left_out(uid, now=61.0) for uid in ("pod-a", "pod-b")]
    [False, True]
    >>> list(pods.overdue(now=61.0))
    [Overdue(uid='pod-a', node='node-0', for_s=60.0)]
    """

    def __init__(self, stale_after_s: float) -> None:
        self._stale_after_s = stale_after_s
        self._pods: dict[str, _Pod] = {}
        self._reports: dict[str, _Reports] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def runs(self, uid: str, node: str, now: float, *, optional: bool = False) -> None:
        """Note that a pod runs on a node, since the first call, and whether the node's agent may leave it out."""
        pod = self._pods.get(uid)
        if pod is None or pod.node != node:
            pod = self._pods[uid] = _Pod(node, now)
        if not optional:
            pod.optional_since = None
        elif pod.optional_since is None:
            pod.optional_since = now

    def over(self, uid: str) -> None:
        """Forget a pod, because a report counts it, or it is gone."""
        self._pods.pop(uid, None)

    def reported(self, node: str, now: float, *, says: bool) -> None:
        """Note a report of a node, and whether it says which pods it counts."""
        before = self._reports.get(node)
        goes_on = before is not None and now - before.last <= self._stale_after_s and before.says == says
        self._reports[node] = _Reports(before.since if before is not None and goes_on else now, now, says)

    def left_out(self, uid: str, now: float) -> bool:
        """Return whether the agent of a node that has reported now leaves this pod out, as it may."""
        pod = self._pods.get(uid)
        reports = None if pod is None else self._reports.get(pod.node)
        if pod is None or reports is None:
            return False  # a pod that runs on another node than the one that has reported may be asked about, too
        since = pod.optional_since if reports.says else pod.since
        return since is not None and now - max(since, reports.since) >= UNCOUNTED_S

    def overdue(self, now: float) -> Iterator[Overdue]:
        """Return the pods that their nodes, which report, should have counted for `OVERDUE_S`."""
        for uid, pod in self._pods.items():
            reports = self._reports.get(pod.node)
            if pod.optional_since is not None or reports is None or not reports.says:
                continue
            for_s = now - max(pod.since, reports.since)
            if for_s >= OVERDUE_S and now - reports.last <= self._stale_after_s:
                yield Overdue(uid, pod.node, for_s)

    def forget(self, node: str) -> None:
        """Forget a node that has left the cluster."""
        self._reports.pop(node, None)
