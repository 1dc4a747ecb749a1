"""The model of the API server: pods as objects, versions, watches that lag, break and forget, and outages.

Every watch delivers what happened in order, as one stream does, but each with delays of its own: two watchers see a
pod's binding at different times, and a node's report may overtake both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import simpy

from benchmarks.robustness.history import History
from carico.errors import KubeRefused, KubeUnreachable
from carico.kube.reflector import ENDED

SCHEDULER = "carico"
_MOST_LAG_S = 0.2


@dataclass(eq=False)
class Pod:
    """A pod as the API server stores it."""

    uid: str
    workload: str
    created_s: float
    node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    version: int = 0

    @property
    def ended(self) -> bool:
        """Whether the pod's containers have ended for good."""
        return self.phase in ENDED

    def as_object(self) -> dict[str, Any]:
        """Return the pod as the API's JSON has it now."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.workload, "uid": f"job-{self.workload}"}
        return {
            "metadata": {
                "name": self.uid,
                "namespace": "jobs",
                "uid": self.uid,
                "labels": {},
                "ownerReferences": [owner],
                "resourceVersion": str(self.version),
            },
            "spec": {
                "schedulerName": SCHEDULER,
                "nodeName": self.node,
                "containers": [{"name": "main", "image": self.workload}],
            },
            "status": {"phase": self.phase},
        }


class Api:
    """Stores pods and tells subscribers of every change at once; delays are the subscribers' own.

    Parameters
    ----------
    env : simpy.Environment
    history : History
    """

    def __init__(self, env: simpy.Environment, history: History) -> None:
        self._env = env
        self._history = history
        self.pods: dict[str, Pod] = {}
        self.log: list[tuple[str, Pod, dict[str, Any]]] = []
        """What happened: kind, pod, and the pod as an object at that time. The version is the length up to there."""
        self.subscribers: list[Callable[[str, Pod], None]] = []
        self.up = True
        self.forgotten = 0
        """Versions up to this one are no longer remembered."""

    def require_up(self) -> None:
        """Raise KubeUnreachable during an outage."""
        if not self.up:
            raise KubeUnreachable("the API server does not answer")

    def create(self, uid: str, workload: str) -> None:
        """Store a new pod."""
        pod = self.pods[uid] = Pod(uid, workload, self._env.now)
        self._tell("ADDED", pod)

    def bind(self, uid: str, node: str) -> None:
        """Bind a pod.

        Raises
        ------
        KubeError
            If the API does not answer, the pod is gone, or it is bound already.
        """
        self.require_up()
        pod = self.pods.get(uid)
        if pod is None or pod.node:
            raise KubeRefused(
                f"{uid} is {'gone' if pod is None else f'bound to {pod.node}'}", 404 if pod is None else 409
            )
        pod.node = node
        self._tell("MODIFIED", pod)

    def show(self, pod: Pod, phase: str) -> None:
        """Store what a kubelet says of a pod."""
        if self.pods.get(pod.uid) is pod and not pod.ended:
            pod.phase = phase
            self._tell("MODIFIED", pod)

    def delete(self, pod: Pod) -> None:
        """Delete a pod; one that a kubelet has remains until the kubelet removes it."""
        if self.pods.get(pod.uid) is not pod or pod.deleting:
            return
        pod.deleting = True
        if pod.node and not pod.ended:
            self._tell("MODIFIED", pod)
        else:
            self.remove(pod)

    def remove(self, pod: Pod) -> None:
        """Remove a pod whose containers have ended, or that never had a node."""
        if self.pods.get(pod.uid) is pod:
            del self.pods[pod.uid]
            self._tell("DELETED", pod)

    def _tell(self, kind: str, pod: Pod) -> None:
        pod.version = len(self.log) + 1
        self.log.append((kind, pod, pod.as_object()))
        self._history.note(f"API: {kind} {pod.uid} node={pod.node or '-'} {pod.phase}{' deleting' * pod.deleting}")
        for subscriber in list(self.subscribers):
            subscriber(kind, pod)


class WatchedPods:
    """One client's list and watch of pods, as `carico.kube.reflector.Pods` wants it.

    Parameters
    ----------
    env : simpy.Environment
    api : Api
    selector : str
        A field selector, of `status.phase!=` and `spec.schedulerName=` alone.
    rng : random.Random
        For the lag of every event.
    """

    def __init__(self, env: simpy.Environment, api: Api, selector: str, rng: random.Random) -> None:
        self._env = env
        self._api = api
        self._rng = rng
        self._left_out = {part.partition("!=")[2] for part in selector.split(",") if "!=" in part}
        self._arrived = len(api.log)
        self._due = env.now
        self._broken_until = -1.0
        self._silent_until = -1.0
        self.news = env.event()
        api.subscribers.append(self._lag)

    def list(self) -> tuple[list[dict[str, Any]], str]:
        """See `Pods`."""
        self._require_connected()
        if self._env.now >= self._silent_until:
            self._arrived = max(self._arrived, len(self._api.log))
        pods = [pod.as_object() for pod in self._api.pods.values() if self._selects(pod.phase)]
        return pods, str(len(self._api.log))

    def watch(self, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """See `Pods`; yields what has arrived by now and a bookmark, and ends."""
        self._require_connected()
        if int(version) < self._api.forgotten:
            raise KubeRefused("too old resource version", 410)
        for number in range(int(version), self._arrived):
            kind, _, thing = self._api.log[number]
            if not self._selects(thing["status"]["phase"]):
                kind = "DELETED"  # it has left the selection
            yield kind, thing
        latest = str(max(int(version), self._arrived))
        yield "BOOKMARK", {"metadata": {"resourceVersion": latest}}

    def close(self) -> None:
        """See `Pods`."""
        if self._lag in self._api.subscribers:
            self._api.subscribers.remove(self._lag)

    def cut(self, seconds: float) -> None:
        """Cut the stream, and let no other be opened for a time."""
        self._broken_until = self._env.now + seconds
        self._tell_news()

    def fall_silent(self, seconds: float) -> None:
        """Let the stream bring nothing for a time, though it is open and pods can be listed."""
        self._silent_until = self._env.now + seconds

    def _require_connected(self) -> None:
        self._api.require_up()
        if self._env.now < self._broken_until:
            raise KubeUnreachable("the connection is broken")

    def _selects(self, phase: str) -> bool:
        return phase not in self._left_out

    def _lag(self, _kind: str, _pod: Pod) -> None:
        self._due = max(self._due, self._env.now + self._rng.uniform(0.001, _MOST_LAG_S))
        number = len(self._api.log)
        self._env.timeout(self._due - self._env.now).callbacks.append(lambda _event: self._arrive(number))

    def _arrive(self, number: int) -> None:
        if self._env.now < self._silent_until:
            remains_s = self._silent_until - self._env.now
            self._env.timeout(remains_s).callbacks.append(lambda _event: self._arrive(number))
            return
        self._arrived = max(self._arrived, number)
        self._tell_news()

    def _tell_news(self) -> None:
        if not self.news.triggered:
            self.news.succeed()
