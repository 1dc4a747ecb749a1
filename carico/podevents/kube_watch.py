"""Pods by the Kubernetes API: the most exact source, and the latest to report a change (thesis §4.2.4, Fig. 4.8).

A pod counts from when it is bound to the node, which the API shows before the kubelet acts, until its phase is
Succeeded or Failed, or it is gone; the kubelet reports that up to some seconds after the last container has exited. A
pod that waits for its image counts. Pods of DaemonSets, static pods (which the API shows as mirror pods) and pods of
platform namespaces do not.

Every session lists the pods and watches from that listing's version on, so that nothing is lost in between. Unlike
`carico.kube.reflector`, it raises the first listing's errors to the caller, and passes a listing on as one set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from carico.clock import Clock
from carico.errors import CaricoError, PodEventsError
from carico.kube.reflector import ENDED, Objects
from carico.podevents.reconnecting import SessionSource
from carico.podevents.source import PLATFORM_NAMESPACES, full_name, is_of_platform


class KubeWatch(SessionSource):
    """The pods of one node.

    Parameters
    ----------
    pods : Objects
        The pods bound to the node; its methods raise `CaricoError`. Closed with the source.
    node : str
        Name of the node.
    excluded_namespaces : collection of str
        Namespaces whose pods do not count.
    clock : Clock, optional
        Dates the changes; the machine's by default.
    """

    def __init__(
        self,
        pods: Objects,
        node: str,
        excluded_namespaces: Collection[str] = PLATFORM_NAMESPACES,
        clock: Clock | None = None,
    ) -> None:
        self._api = pods
        self._node = node
        self._excluded = frozenset(excluded_namespaces)
        super().__init__(f"pods of {node}", clock, interrupt=pods.close)

    def _session(self) -> Iterator[None]:
        running, version = self._listed()
        self._pods.replace(running)
        yield
        for kind, pod in self._watched(version):
            if self._sessions.closed:
                return
            if kind in ("ADDED", "MODIFIED") and self._counts(pod):
                running[pod["metadata"]["uid"]] = _name(pod)
            elif kind != "BOOKMARK":
                running.pop(pod["metadata"]["uid"], None)
            self._pods.replace(running)
            yield

    def _listed(self) -> tuple[dict[str, str], str]:
        try:
            pods, version = self._api.list()
        except CaricoError as error:
            raise PodEventsError(f"the pods of {self._node} cannot be listed: {error}") from error
        return {pod["metadata"]["uid"]: _name(pod) for pod in pods if self._counts(pod)}, version

    def _watched(self, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            yield from self._api.watch(version)
        except CaricoError as error:
            raise PodEventsError(f"the pods of {self._node} cannot be watched: {error}") from error

    def _counts(self, pod: Mapping[str, Any]) -> bool:
        return not (is_of_platform(pod, self._excluded) or (pod.get("status") or {}).get("phase") in ENDED)


def _name(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    return full_name(metadata.get("namespace"), metadata.get("name"))
