"""kube-scheduler's framework: the queues of pending pods and the loop that takes one pod at a time.

A plugin decides where a pod goes. The active, back-off and unschedulable queues are emulated with the real back-off
times: a refused pod is tried again only after a cluster event (or five minutes), and not before its back-off is over.
Priorities order the active queue; there is no pre-emption.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Protocol

import simpy

from testbed.simulation.control_plane.api import ApiServer, Pod, Process, RateLimiter
from testbed.simulation.parameters import SimulationParameters

BACKOFF_FLUSH_S = 1.0
"""How often kube-scheduler moves pods whose back-off is over to the active queue."""
LEFTOVER_S = 300.0
LEFTOVER_FLUSH_S = 30.0
"""Pods that no event has moved for five minutes are tried again anyway; a timer looks for them every 30 s."""


class SchedulingPlugin(Protocol):
    """A scheduler under test inside the framework."""

    is_extender: bool
    """Whether the pods that it refuses are refused by an extender; see the parameter `queueing_hints`."""

    def pod_created(self, pod: Pod) -> None:
        """Note that the API shows a new pod."""
        ...

    def select(self, pod: Pod) -> int | None:
        """Filter and score; return the node for `pod`, or None if no node has room."""
        ...

    def held(self, pod: Pod) -> simpy.Event | None:
        """Return when to ask again about a pod without a node, trying no other until then; None to refuse the pod."""
        ...

    def reserve(self, pod: Pod, node: int) -> None:
        """Count `pod` against `node` from now on."""
        ...

    def pod_bound(self, pod: Pod) -> None:
        """Note that the API shows `pod` as bound."""
        ...

    def pod_running(self, pod: Pod) -> None:
        """Note that the API shows `pod` as Running."""
        ...

    def pod_finished(self, pod: Pod) -> None:
        """Note that the API shows `pod` as ended."""
        ...

    def node_ready(self, node: int, ready: bool) -> None:
        """Note whether `node` takes pods from now on."""
        ...


class SchedulingFramework:
    """Takes pending pods one at a time and binds them where the plugin says.

    Parameters
    ----------
    env : simpy.Environment
    api : ApiServer
    parameters : SimulationParameters
    plugin : SchedulingPlugin
    """

    def __init__(
        self, env: simpy.Environment, api: ApiServer, parameters: SimulationParameters, plugin: SchedulingPlugin
    ) -> None:
        self._env = env
        self._api = api
        self._parameters = parameters
        self._plugin = plugin
        self._bindings = RateLimiter(env, parameters.bindings_per_s, parameters.bindings_burst)
        self._active: list[tuple[int, float, int, Pod]] = []
        self._order = count()
        self._backing_off: list[tuple[float, Pod]] = []
        self._unschedulable: dict[Pod, tuple[float, float]] = {}
        self._queued_s: dict[Pod, float] = {}
        """When each pod that waits for another attempt was refused."""
        self._events = 0
        self._work = env.event()
        api.watch(created=plugin.pod_created)
        api.watch(
            created=self._enqueue,
            bound=plugin.pod_bound,
            running=plugin.pod_running,
            finished=self._pod_finished,
            node_changed=lambda _node: self._cluster_event(),
        )
        if parameters.queueing_hints and plugin.is_extender:
            api.watch(bound=self._pod_changed, running=self._pod_changed)
        env.process(self._schedule())
        env.process(self._flush_backoff())
        env.process(self._flush_leftover())

    def node_ready(self, node: int, ready: bool) -> None:
        """Note whether a node takes pods from now on."""
        self._plugin.node_ready(node, ready)
        if ready:
            self._cluster_event()

    def _schedule(self) -> Process:
        attempt_s = 1.0 / self._parameters.scheduling_attempts_per_s
        while True:
            while (pod := self._next()) is None:
                self._work = self._env.event()
                yield self._work
            if pod.deleted:
                continue
            events = self._events
            yield self._env.timeout(attempt_s)
            pod.attempts += 1
            node = self._plugin.select(pod)
            while node is None and not pod.deleted and (again := self._plugin.held(pod)) is not None:
                yield again
                node = self._plugin.select(pod)
            if node is not None:
                self._plugin.reserve(pod, node)
                self._env.process(self._bind(pod, node))
            else:
                self._refuse(pod, missed_event=events != self._events)

    def _next(self) -> Pod | None:
        """Return the pod whose turn it is; None if no pod waits."""
        if self._active:
            return heapq.heappop(self._active)[-1]
        if not (self._parameters.pop_from_backoff and self._backing_off):
            return None
        first = min(self._backing_off, key=lambda entry: entry[0])
        self._backing_off.remove(first)
        self._queued_s.pop(first[1], None)
        return first[1]

    def _bind(self, pod: Pod, node: int) -> Process:
        yield self._bindings.wait()
        yield self._env.timeout(self._parameters.bind_latency_s)
        self._api.bind(pod, node)

    def _refuse(self, pod: Pod, *, missed_event: bool) -> None:
        self._queued_s[pod] = self._env.now
        initial, longest = self._parameters.backoff_initial_s, self._parameters.backoff_max_s
        # After thirty attempts the longest back-off has long been reached.
        over = self._env.now + min(initial * 2.0 ** min(pod.attempts - 1, 30), longest)
        if missed_event:
            self._back_off(over, pod)
        else:
            self._unschedulable[pod] = (self._env.now, over)

    def _flush_backoff(self) -> Process:
        while True:
            yield self._env.timeout(BACKOFF_FLUSH_S)
            now = self._env.now
            ready = sorted((entry for entry in self._backing_off if entry[0] <= now), key=lambda entry: entry[0])
            if ready:
                self._backing_off = [entry for entry in self._backing_off if entry[0] > now]
                for _, pod in ready:
                    self._enqueue(pod)

    def _cluster_event(self) -> None:
        """Room may have appeared: let unschedulable pods be tried again as soon as their back-off is over."""
        self._events += 1
        self._move_since(self._env.now)

    def _flush_leftover(self) -> Process:
        while True:
            yield self._env.timeout(LEFTOVER_FLUSH_S)
            self._move_since(self._env.now - LEFTOVER_S)

    def _move_since(self, latest: float) -> None:
        """Move the pods that were found unschedulable at `latest` or before."""
        waiting, self._unschedulable = self._unschedulable, {}
        for pod, (since, over) in waiting.items():
            if since > latest:
                self._unschedulable[pod] = (since, over)
            elif over <= self._env.now:
                self._enqueue(pod)
            else:
                self._back_off(over, pod)

    def _back_off(self, over: float, pod: Pod) -> None:
        self._backing_off.append((over, pod))
        if self._parameters.pop_from_backoff:
            self._wake()

    def _enqueue(self, pod: Pod) -> None:
        # The highest priority comes first, then the pod that was created or refused the longest ago. As in
        # PrioritySort, moves between the queues do not change the time stamp.
        since = self._queued_s.pop(pod, self._env.now)
        heapq.heappush(self._active, (-pod.job.priority, since, next(self._order), pod))
        self._wake()

    def _wake(self) -> None:
        if not self._work.triggered:
            self._work.succeed()

    def _pod_changed(self, _pod: Pod) -> None:
        self._cluster_event()

    def _pod_finished(self, pod: Pod) -> None:
        self._plugin.pod_finished(pod)
        self._cluster_event()
