"""Pods by the Kubernetes API: knows best which pods count, and is the last to hear of them (thesis §4.2.4, Fig. 4.8).

A pod counts from when it is bound to the node, which the API tells before the kubelet acts on it, until its phase is
Succeeded or Failed, or it is gone: the kubelet says so up to some seconds after the last container has exited. One
that waits for its image counts. Left out are pods of DaemonSets, static pods (the API's mirrors of them) and those of
platform namespaces.

The API itself is reached through `PodApi`, so that nothing here needs a client.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from carico.clock import Clock
from carico.errors import CaricoError, PodEventsError
from carico.podevents.reconnecting import SessionSource
from carico.podevents.source import PLATFORM_NAMESPACES

_MIRROR = "kubernetes.io/config.mirror"
_OVER = ("Succeeded", "Failed")

Pod = Mapping[str, Any]
"""A pod as the API's JSON has it."""


class PodApi(Protocol):
    """The pods of a node, from the API server; problems are exceptions of CARICO's tree."""

    def list_pods(self, node: str) -> list[dict[str, Any]]:
        """Return all pods bound to a node."""
        ...

    def watch_pods(self, node: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ADDED, MODIFIED or DELETED and the pod; end or raise when the connection does, some time at least.

        Pods that exist already come first, as ADDED.
        """
        ...


class KubeWatch(SessionSource):
    """The pods of one node.

    Parameters
    ----------
    api : PodApi
    node : str
        Name of the node.
    excluded_namespaces : collection of str
        Namespaces whose pods do not count.
    clock : Clock, optional
        Dates the changes; the machine's by default.
    rng : random.Random, optional
        Spreads the waits between attempts to connect again; seeded by the system by default.
    """

    def __init__(
        self,
        api: PodApi,
        node: str,
        excluded_namespaces: Collection[str] = PLATFORM_NAMESPACES,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._api = api
        self._node = node
        self._excluded = frozenset(excluded_namespaces)
        super().__init__(f"pods of {node}", clock, rng)

    def count(self) -> int:
        """See `PodEventSource`."""
        return len(self._listed())

    def close(self) -> None:
        """See `PodEventSource`; a watch that waits for news ends with the next one, and tells nothing."""
        self._sessions.close(patience_s=0.0)

    def _session(self) -> Iterator[None]:
        pods = self._listed()
        self._pods.become(pods)
        yield
        listed_within = False
        for kind, pod in self._watched():
            if self._sessions.closed:
                return
            if not listed_within:
                # The watch stands, as its first news proves: what happened since the listing above is in this one,
                # what happens later is in the watch. A node's agent is a pod itself, so there is always news.
                pods, listed_within = self._listed(), True
            uid = pod["metadata"]["uid"]
            if kind != "DELETED" and self._counts(pod):
                pods.add(uid)
            else:
                pods.discard(uid)
            self._pods.become(pods)
            yield

    def _listed(self) -> set[str]:
        try:
            return {pod["metadata"]["uid"] for pod in self._api.list_pods(self._node) if self._counts(pod)}
        except CaricoError as error:
            raise PodEventsError(f"the pods of {self._node} cannot be listed: {error}") from error

    def _watched(self) -> Iterator[tuple[str, Pod]]:
        try:
            yield from self._api.watch_pods(self._node)
        except CaricoError as error:
            raise PodEventsError(f"the pods of {self._node} cannot be watched: {error}") from error

    def _counts(self, pod: Pod) -> bool:
        metadata = pod["metadata"]
        owners = metadata.get("ownerReferences") or ()
        return not (
            metadata.get("namespace") in self._excluded
            or any(owner.get("kind") == "DaemonSet" for owner in owners)
            or _MIRROR in (metadata.get("annotations") or {})
            or (pod.get("status") or {}).get("phase") in _OVER
        )
