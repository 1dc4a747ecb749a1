"""The protocol of all sources of pod events, and the pods that no source counts.

Running pods (n) are the pods on the node that are not part of the platform. A node's own DaemonSet, static and
system pods always run: if they were counted, no node would look idle. Each source's module says how well it can tell
them apart. `may_be_left_out` says of which pods the scheduler must not wait to hear that they are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol


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
_MIRROR = "kubernetes.io/config.mirror"
_HASH = re.compile(r"[0-9a-f]{32}")


def is_static(uid: str) -> bool:
    """Whether a pod is static, which the kubelet runs from a file: its UID is a hash of 32 digits, not a UUID."""
    return _HASH.fullmatch(uid) is not None


def is_of_platform(pod: Mapping[str, Any], excluded_namespaces: Collection[str]) -> bool:
    """Whether a pod, as the Kubernetes API shows it, is one that sources count as part of the platform.

    These are pods of excluded namespaces and static pods, and for the source `kubernetes` also pods of DaemonSets.
    """
    metadata = pod["metadata"]
    return (
        metadata.get("namespace") in excluded_namespaces
        or any(owner.get("kind") == "DaemonSet" for owner in metadata.get("ownerReferences") or ())
        or _MIRROR in (metadata.get("annotations") or {})
    )


def may_be_left_out(pod: Mapping[str, Any], excluded_namespaces: Collection[str]) -> bool:
    """Whether an agent may rightly not count a pod that the Kubernetes API shows as Running.

    It may be part of the platform. Or none of its containers runs, because they have crashed and wait to be started
    again; the phase stays Running then.

    Examples
    --------
    >>> crashed = {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    >>> may_be_left_out({"metadata": {"namespace": "jobs"}, "status": {"phase": "Running"} | crashed}, ())
    True
    """
    status = pod.get("status") or {}
    containers = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    runs = not containers or any((each.get("state") or {}).get("running") is not None for each in containers)
    return not runs or is_of_platform(pod, excluded_namespaces)


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
