"""The protocol of all sources of pod events, and the pods that no source counts.

Running pods (n) are the pods on the node that are not part of the platform. A node's own DaemonSet, static and
system pods always run: if they were counted, no node would look idle. Each source's module says how well it can tell
them apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol


class PodChange(NamedTuple):
    """A pod that has started or stopped on this node."""

    change: int
    """+1 if the pod has started, -1 if it has stopped."""
    at: float
    """When the change was noticed, seconds on the clock."""
    uid: str
    pod: str = ""
    """NAMESPACE/NAME; empty where the source does not know it."""


OnChange = Callable[[PodChange], None]
"""Called with every change."""

PLATFORM_NAMESPACES = ("kube-system", "kube-flannel", "carico", "local-path-storage")
"""Kubernetes namespaces whose pods do not count by default."""
_HASH = re.compile(r"[0-9a-f]{32}")


def is_static(uid: str) -> bool:
    """Whether a pod is static, which the kubelet runs from a file: its UID is a hash of 32 digits, not a UUID."""
    return _HASH.fullmatch(uid) is not None


def full_name(namespace: str | None, name: str | None) -> str:
    """Return NAMESPACE/NAME; empty if either is not known."""
    return f"{namespace}/{name}" if namespace and name else ""


class PodEventSource(Protocol):
    """Reports every pod that starts or stops on this node.

    A source begins at 0 pods, and the changes always add up to the pods that it knows of: no pod starts twice without a
    stop in between, and no pod stops that has not started. Pods that run already when the source starts, and whatever
    it missed while it was cut off, are reported as changes, too, once a listing has shown them.
    """

    def start(self, on_change: OnChange) -> None:
        """Report the pods that run already, then return, and report every change from a thread of the source.

        Changes come one at a time. A slow callback delays the changes that follow; a callback's exception is logged.

        Raises
        ------
        PodEventsError
            If the source cannot be read; the message gives the remedy. Later failures are logged, and the source tries
            again.
        """
        ...

    def close(self) -> None:
        """Report no more changes and release everything; closing twice is fine."""
        ...
