"""When refused pods should be tried again: as soon as a full node has room for a pod. Pure.

kube-scheduler does not know Pod-Capacity: a pod that an extender refused waits until something changes in the API, or
for minutes. So the extender changes an annotation of the node, and `WakeUp` says when. One change wakes all waiting
pods, so a few changes are enough: their rate is limited for each node and in total, and a change that was held back is
considered again at the node's next report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


class WakeUp:
    """Notices nodes whose room grows to one pod or more.

    Parameters
    ----------
    node_interval_s : float
        The shortest time between two changes of a node, seconds.
    interval_s : float
        The shortest time between any two changes, seconds.

    Examples
    --------
    >>> wake_up = WakeUp(node_interval_s=10, interval_s=1)
    >>> [wake_up.observe("node-0", available, at) for at, available in enumerate([3.0, 0.4, 1.2, 1.5])]
    [False, False, True, False]
    """

    def __init__(self, node_interval_s: float = 5.0, interval_s: float = 0.5) -> None:
        self._node_interval_s = node_interval_s
        self._interval_s = interval_s
        self._full: set[str] = set()
        self._changed_at: dict[str, float] = {}
        self._last = -math.inf

    def observe(self, node: str, available: float, at: float, wanted: bool = True) -> bool:
        """Take in a node's room; return whether the node should be changed now.

        Parameters
        ----------
        node : str
        available : float
            Pods: Pod-Capacity less reservations.
        at : float
            Seconds; never less than in the call before.
        wanted : bool
            Whether any pod waits. If none does, the node's present room causes no change, now or later.
        """
        if not available >= 1:
            self._full.add(node)
            return False
        if not wanted:
            self._full.discard(node)
        if node not in self._full:
            return False
        if at - self._last < self._interval_s or at - self._changed_at.get(node, -math.inf) < self._node_interval_s:
            return False
        self._full.remove(node)
        self._changed_at[node] = self._last = at
        return True

    def refused(self, nodes: Iterable[str]) -> None:
        """Note that nodes have no room for a pod that was just refused, though they may have had some for another."""
        self._full.update(nodes)

    def forget(self, node: str) -> None:
        """Drop what is known about a node that has left the cluster."""
        self._full.discard(node)
        self._changed_at.pop(node, None)
