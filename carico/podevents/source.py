"""What a source of pod events offers; who it leaves out of the count.

Running pods (n) are the pods on the node that are no part of the platform. A node's own DaemonSet, static and
system pods run always: counted, they would hide that a node is idle. How well a source can tell them apart is said
where it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

OnChange = Callable[[int, float], None]
"""Called with the change of the number of running pods, +1 or -1, and when it was noticed, seconds on the clock."""

PLATFORM_NAMESPACES = ("kube-system", "kube-flannel", "carico", "local-path-storage")
"""Kubernetes namespaces whose pods do not count, unless told otherwise."""
_HASH = re.compile(r"[0-9a-f]{32}")


def is_static(uid: str) -> bool:
    """Whether a pod is the kubelet's own, from a file: its UID is a hash of 32 digits, others' are UUIDs."""
    return _HASH.fullmatch(uid) is not None


class PodEventSource(Protocol):
    """Tells when a pod starts or stops on this node.

    A source begins at 0 pods and the changes always add up to the count it believes in. What runs already when it
    starts, or what it missed while it was cut off, it tells as changes too, as soon as a listing has shown it.
    """

    def start(self, on_change: OnChange) -> None:
        """Tell what runs already, then return and tell every change from a thread of the source.

        Changes come one at a time. A callback that is slow delays those that follow; one that raises is logged.

        Raises
        ------
        PodEventsError
            If the source cannot be read, with the remedy. Later failures are logged and counted, and it tries again.
        """
        ...

    def count(self) -> int:
        """Return how many pods run now, by a listing of its own; changes under way may not have been told yet.

        Raises
        ------
        PodEventsError
            If the source cannot be read now.
        """
        ...

    def close(self) -> None:
        """Tell no more and release everything; closing twice is fine."""
        ...
