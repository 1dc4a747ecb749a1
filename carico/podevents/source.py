"""What a source of pod events offers, and which pods no source counts.

Running pods (n) are the pods on the node that are not part of the platform. A node's own DaemonSet, static and
system pods always run: counted, they would hide that a node is idle. Each source's module says how well it can tell
them apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol


class PodChange(NamedTuple):
    """A pod that has started or stopped on this node."""

    change: int
    """+1 or -1: of the number of running pods."""
    at: float
    """When it was noticed, seconds on the clock."""
    uid: str
    pod: str = ""
    """NAMESPACE/NAME; empty where the source does not know it."""


OnChange = Callable[[PodChange], None]
"""Called with every change."""

PLATFORM_NAMESPACES = ("kube-system", "kube-flannel", "carico", "local-path-storage")
"""Kubernetes namespaces whose pods do not count by default."""
_HASH = re.compile(r"[0-9a-f]{32}")


def is_static(uid: str) -> bool:
    """Whether a pod is the kubelet's own, from a file: its UID is a hash of 32 digits, not a UUID."""
    return _HASH.fullmatch(uid) is not None


def full_name(namespace: str | None, name: str | None) -> str:
    """Return NAMESPACE/NAME; empty if either is not known."""
    return f"{namespace}/{name}" if namespace and name else ""


class PodEventSource(Protocol):
    """Tells which pod starts or stops on this node.

    A source begins at 0 pods, and the changes always add up to the pods that it knows of: none starts twice without a
    stop in between, and none stops that has not started. It tells pods that run already when it starts, and what it
    missed while it was cut off, as changes, too, once a listing has shown them.
    """

    def start(self, on_change: OnChange) -> None:
        """Tell what runs already, then return and tell every change from a thread of the source.

        Changes come one at a time. A slow callback delays the changes that follow; one that raises is logged.

        Raises
        ------
        PodEventsError
            If the source cannot be read, with the remedy. Later failures are logged, and the source tries again.
        """
        ...

    def count(self) -> int:
        """Return how many pods run now, by a listing made for this call; some changes may not have been told yet.

        Raises
        ------
        PodEventsError
            If the source cannot be read now.
        """
        ...

    def close(self) -> None:
        """Tell no more and release everything; closing twice is fine."""
        ...
