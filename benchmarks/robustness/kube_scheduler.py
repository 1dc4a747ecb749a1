"""The model of kube-scheduler: one scheduling cycle at a time, bindings beside it, and queues of refused pods.

A scheduler that stops is a process that ends, as kube-scheduler does when it loses its lease. Bindings that wait end
with it; calls that it has sent may still reach the API server, which refuses to bind a pod that is bound already.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from benchmarks.robustness.api import Api, Pod
from benchmarks.robustness.history import History
from benchmarks.robustness.nodes import Nodes
from benchmarks.robustness.replica import Replica
from carico.errors import CaricoError, KubeError

Steps = Generator[simpy.Event, Any, None]
_BACKOFF_S = 1.0
_LEFTOVER_S = 300.0
_LONGEST_BIND_S = 1200.0
"""How long a pod may wait to be bound: twice as long as kube-scheduler waits for volumes by default."""
_LONGEST_CALL_S = 60.0
"""After this time the API server gives up a request."""


@dataclass
class Habits:
    """What goes wrong between kube-scheduler, the extender and the API; shares of all calls."""

    clients: int = 1
    """How many scheduling cycles run at the same time."""
    slow_binds: float = 0.0
    slow_calls: float = 0.0
    """Calls to bind a pod that the API server carries out late, even if whoever made them is gone."""
    failed_binds: float = 0.0
    unknown_binds: float = 0.0
    """Bindings that the API makes, but reports as failed."""
    duplicates: float = 0.0
    """Requests that reach the extender twice; either answer may be the one that counts."""
    lost_answers: float = 0.0


class KubeScheduler:
    """Places pods from `start` to `stop`.

    Parameters
    ----------
    name : str
    env : simpy.Environment
    api : Api
    nodes : Nodes
    replica : Replica
        The extender that it asks.
    habits : Habits
    rng : random.Random
    history : History
    """

    def __init__(
        self,
        name: str,
        env: simpy.Environment,
        api: Api,
        nodes: Nodes,
        replica: Replica,
        habits: Habits,
        rng: random.Random,
        history: History,
    ) -> None:
        self._name = name
        self._env = env
        self._api = api
        self._nodes = nodes
        self.replica = replica
        self._habits = habits
        self._rng = rng
        self._history = history
        self._active: deque[Pod] = deque()
        self._refused: dict[Pod, float] = {}
        """Since when refused pods wait for a change."""
        self.under_way: dict[str, str] = {}
        """The node of every pod that is being bound, by UID."""
        self._bound: set[str] = set()
        """Pods that its own watch shows as bound."""
        self._changes = 0
        self._work = env.event()
        self.running = False
        self._life = 0

    def start(self) -> None:
        """List pods and begin, as a new process."""
        self.running = True
        self._life += 1
        self._refused.clear()
        self._bound = {uid for uid, pod in self._api.pods.items() if pod.node}
        self._history.note(f"{self._name}: leads")
        self._api.subscribers.append(self._api_changed)
        self._active = deque(pod for pod in self._api.pods.values() if not pod.node)
        for _ in range(self._habits.clients):
            self._env.process(self._schedule())
        self._env.process(self._flush_leftover())

    def stop(self) -> None:
        """End the process."""
        self.running = False
        self._history.note(f"{self._name}: stops")
        self._api.subscribers.remove(self._api_changed)
        if not self._work.triggered:
            self._work.succeed()  # idle cycles end
        while self.under_way:
            self._nodes.give_up(*self.under_way.popitem())

    def something_changed(self) -> None:
        """Try refused pods again."""
        self._changes += 1
        refused, self._refused = self._refused, {}
        for pod, since in refused.items():
            self._later(pod, max(since + _BACKOFF_S - self._env.now, 0.0))

    def _schedule(self) -> Steps:
        while self.running:
            if not self._active:
                self._work = self._env.event() if self._work.triggered else self._work
                yield self._work
                continue
            pod = self._active.popleft()
            yield self._env.timeout(self._rng.uniform(0.001, 0.005))
            if self.running and not self._is_settled(pod):
                yield from self._attempt(pod)

    def _attempt(self, pod: Pod) -> Steps:
        changes = self._changes
        body = json.dumps({"Pod": pod.as_object(), "NodeNames": list(self._nodes.by_name)}).encode()
        try:
            node = self._ask(body)
            if self._rng.random() < self._habits.duplicates:
                first = node
                yield self._env.timeout(self._rng.choice([0.0, self._rng.uniform(0.0, 0.05)]))
                again = self._ask(body)
                node = self._rng.choice([first, again])
                self._fault(f"{pod.uid} was asked for twice: {first}, {again}")
            if self._rng.random() < self._habits.lost_answers:
                self._fault(f"the answer about {pod.uid} is lost")
                raise KubeError("no answer")
        except CaricoError as error:
            self._history.note(f"{self._name}: no answer about {pod.uid}: {error}")
            self._later(pod, _BACKOFF_S)
            return
        if not self.running or self._is_settled(pod):
            return
        if node is not None:
            self._history.note(f"{self._name}: {pod.uid} goes to {node}")
            self._nodes.assume(pod.uid, pod.workload, node)
            self.under_way[pod.uid] = node
            self._env.process(self._bind(pod, node))
        elif changes != self._changes:
            self._later(pod, _BACKOFF_S)
        else:
            self._refused[pod] = self._env.now

    def _ask(self, body: bytes) -> str | None:
        answer = json.loads(self.replica.filter(body))
        return answer["NodeNames"][0] if answer.get("NodeNames") else None

    def _bind(self, pod: Pod, node: str) -> Steps:
        rng, habits, life = self._rng, self._habits, self._life
        slow = rng.random() < habits.slow_binds
        if slow:
            self._fault(f"binding {pod.uid} to {node} is slow")
        yield self._env.timeout(rng.uniform(5.0, _LONGEST_BIND_S) if slow else rng.uniform(0.005, 0.1))
        if not self._lives(life):
            return
        if rng.random() < habits.slow_calls:
            self._fault(f"the call to bind {pod.uid} to {node} is slow")
            yield self._env.timeout(rng.uniform(0.0, _LONGEST_CALL_S))
            if not self._lives(life):
                self._bind_late(pod, node)
                return
        del self.under_way[pod.uid]
        failure = ""
        if rng.random() < habits.failed_binds:
            failure = "a volume cannot be attached"
        else:
            try:
                self._api.bind(pod.uid, node)
            except KubeError as error:
                failure = str(error)
            else:
                if rng.random() < habits.unknown_binds:
                    failure = "no answer, although it is bound"
        if failure:
            self._history.findings.faults += 1
            self._history.note(f"{self._name}: binding {pod.uid} to {node} failed: {failure}")
            if pod.node != node:
                self._nodes.give_up(pod.uid, node)
            self._later(pod, _BACKOFF_S)

    def _bind_late(self, pod: Pod, node: str) -> None:
        """Carry out the call of a scheduler that has stopped."""
        try:
            self._api.bind(pod.uid, node)
        except KubeError as error:
            self._history.note(f"{self._name}: binding {pod.uid} to {node} failed late: {error}")
        else:
            self._history.note(f"{self._name}: {pod.uid} was bound to {node} late")
            self._nodes.assume(pod.uid, pod.workload, node, late=True)

    def _lives(self, life: int) -> bool:
        return self.running and self._life == life

    def _fault(self, what: str) -> None:
        self._history.findings.faults += 1
        self._history.note(f"FAULT: {what}")

    def _is_settled(self, pod: Pod) -> bool:
        gone = self._api.pods.get(pod.uid) is not pod or pod.deleting
        return gone or pod.uid in self._bound or pod.uid in self.under_way

    def _later(self, pod: Pod, seconds: float) -> None:
        self._env.timeout(seconds).callbacks.append(lambda _event: self._enqueue(pod))

    def _enqueue(self, pod: Pod) -> None:
        if not self.running:
            return
        self._active.append(pod)
        if not self._work.triggered:
            self._work.succeed()

    def _api_changed(self, kind: str, pod: Pod) -> None:
        def hear(_event: simpy.Event) -> None:
            if not self.running:
                return
            if kind == "ADDED":
                self._enqueue(pod)
            elif pod.node:
                self._bound.add(pod.uid)
            if kind == "DELETED":
                self._refused.pop(pod, None)
            if kind == "DELETED" or pod.ended:
                self.something_changed()

        self._env.timeout(self._rng.uniform(0.001, 0.1)).callbacks.append(hear)

    def _flush_leftover(self) -> Steps:
        while self.running:
            yield self._env.timeout(30.0)
            for pod, since in list(self._refused.items()):
                if self._env.now - since >= _LEFTOVER_S:
                    del self._refused[pod]
                    self._enqueue(pod)
