"""The API server of the simulated cluster: pod objects, rate-limited clients and watches with latency.

It holds what the control plane knows, which lags behind what happens on the nodes. There is no HTTP, and pods are the
only objects; of nodes it only reports that one has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import simpy

from workloads.scenario import JobSpec

Process = Generator[simpy.Event, Any, Any]
Changed = TypeVar("Changed")


@dataclass(eq=False)
class Pod:
    """A pod, and when things happened to it, seconds; None for what has not happened."""

    uid: str
    name: str
    job: JobSpec
    work: float
    """CPU-seconds."""
    created_s: float
    scheduled_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    node: int | None = None
    outcome: str = "unfinished"
    """succeeded, oom_killed, failed, evicted or unfinished."""
    millicpu: int = 0
    """CPU requested under the scheduler under test."""
    memory_bytes: int = 0
    """Memory requested."""
    deleted: bool = field(default=False, repr=False)
    """Set when its Job gave up, or when its node was lost before it ran."""
    over: bool = field(default=False, repr=False)
    """Set when the API shows that it has ended."""
    attempts: int = field(default=0, repr=False)
    """How often kube-scheduler has tried to place the pod."""
    stop: Callable[[], None] | None = field(default=None, repr=False)
    """Ends the container; set while it runs."""


class RateLimiter:
    """A client's token bucket: `burst` calls at once, then `per_s` a second, first come, first served."""

    def __init__(self, env: simpy.Environment, per_s: float, burst: float = 1.0) -> None:
        self._env = env
        self._interval = 1.0 / per_s
        self._burst = burst
        self._next = -math.inf

    def wait(self) -> simpy.Timeout:
        """Return an event that occurs when the next call may be made."""
        now = self._env.now
        self._next = max(self._next, now - (self._burst - 1) * self._interval)
        delay = max(self._next - now, 0.0)
        self._next += self._interval
        return self._env.timeout(delay)


class ApiServer:
    """Pods as the API shows them; subscribers are notified of changes.

    Parameters
    ----------
    env : simpy.Environment
    watch_latency_s : float
        Delay until subscribers are notified of a new or bound pod, or of a changed node. Kubelets add their own delays.
    """

    def __init__(self, env: simpy.Environment, watch_latency_s: float = 0.0) -> None:
        self.env = env
        self._watch_latency_s = watch_latency_s
        self.pods: list[Pod] = []
        self._created: list[Callable[[Pod], None]] = []
        self._bound: list[Callable[[Pod], None]] = []
        self._running: list[Callable[[Pod], None]] = []
        self._finished: list[Callable[[Pod], None]] = []
        self._node_changed: list[Callable[[int], None]] = []

    def watch(
        self,
        created: Callable[[Pod], None] | None = None,
        bound: Callable[[Pod], None] | None = None,
        running: Callable[[Pod], None] | None = None,
        finished: Callable[[Pod], None] | None = None,
        node_changed: Callable[[int], None] | None = None,
    ) -> None:
        """Subscribe to changes of pods and nodes; the callbacks run when the watch delivers a change."""
        for callbacks, callback in (
            (self._created, created),
            (self._bound, bound),
            (self._running, running),
            (self._finished, finished),
        ):
            if callback is not None:
                callbacks.append(callback)
        if node_changed is not None:
            self._node_changed.append(node_changed)

    def create(self, pod: Pod) -> None:
        """Store a new, Pending pod."""
        self.pods.append(pod)
        self._tell_later(self._created, pod)

    def bind(self, pod: Pod, node: int) -> None:
        """Store the node of a pod."""
        pod.node = node
        pod.scheduled_s = self.env.now
        self._tell_later(self._bound, pod)

    def show_running(self, pod: Pod) -> None:
        """Show a pod as Running."""
        self._tell(self._running, pod)

    def show_finished(self, pod: Pod) -> None:
        """Show a pod as Succeeded or Failed, unless it is already shown so."""
        if pod.over:
            return
        pod.over = True
        self._tell(self._finished, pod)

    def change_node(self, node: int) -> None:
        """Note that a node has a new annotation, whose content is not kept."""
        self._tell_later(self._node_changed, node)

    def _tell_later(self, callbacks: list[Callable[[Changed], None]], what: Changed) -> None:
        if self._watch_latency_s:
            heard = self.env.timeout(self._watch_latency_s)
            heard.callbacks.append(lambda _event: self._tell(callbacks, what))
        else:
            self._tell(callbacks, what)

    @staticmethod
    def _tell(callbacks: list[Callable[[Changed], None]], what: Changed) -> None:
        for callback in callbacks:
            callback(what)
