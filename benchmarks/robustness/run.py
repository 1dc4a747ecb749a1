"""One run: a cluster, a hundred pods that come in bursts, faults, and the invariants.

- *Capacity*: whenever kube-scheduler takes an answer, the node has room beside all pods that have a claim to it, except
  those that a former leader bound after another had taken over.
- *No pod is lost*: every pod ends or is deleted.
- *No starvation*: a pod does not wait for longer than the fault allows while some node has room for it and reports,
  though others may go first; nor does one node keep such room to itself for longer, whoever waits.
- *No leak*: after all pods are gone, nothing is reserved or waits, and the extender holds no pod's UID.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import simpy

from benchmarks.robustness.api import SCHEDULER, Api
from benchmarks.robustness.faults import Fault, fault_named
from benchmarks.robustness.history import History
from benchmarks.robustness.kube_scheduler import KubeScheduler
from benchmarks.robustness.nodes import WORKLOADS, DemandRoom, Nodes, PodCapacityRoom
from benchmarks.robustness.replica import Replica
from carico.config import ExtenderConfig
from carico.demand.settings import DemandVariant
from carico.variants import variant_named

Steps = Generator[simpy.Event, Any, None]
Unused = tuple[str, frozenset[str]]
"""A node with room, and the pods that have a claim to it: as long as these stay the same, nobody gets the room."""

_NODES = 4
_ARRIVE_WITHIN_S = 60.0
_LONGEST_S = 3000.0
"""A pod that has not ended by then is lost."""
_DRAINED_AFTER_S = 75.0
"""How long after the last pod an extender may still hold something: a minute for pods that it was never shown."""


class Run:
    """A cluster and its faults; `run` runs it once.

    Parameters
    ----------
    variant : str
        The name of the variant under test.
    fault : str
        The name of one of `FAULTS`.
    seed : int
        Everything follows from it.
    pods : int
    folder : Path
        For checkpoints; must be empty.
    until_counted : bool, optional
        See `ExtenderConfig`.
    older_agents : bool, optional
        See `PodCapacityRoom`.
    """

    def __init__(
        self,
        variant: str,
        fault: str,
        seed: int,
        pods: int,
        folder: Path,
        until_counted: bool = True,
        older_agents: bool = False,
    ) -> None:
        self.fault: Fault = fault_named(fault, older_agents)
        self._rng = random.Random(f"{variant} {fault} {seed}")
        self._pods = pods
        self.env = simpy.Environment()
        self.history = History(self.env)
        self.api = Api(self.env, self.history)
        tested = variant_named(variant)
        if isinstance(tested, DemandVariant):
            # With one level only, a node's room does not depend on what else waits, so that it can be judged.
            tested = replace(tested, threads_per_core=1.0)
        room = DemandRoom(tested) if isinstance(tested, DemandVariant) else PodCapacityRoom(older_agents)
        self.replicas = [
            Replica(
                f"extender-{number}",
                self.env,
                self.api,
                tested,
                ExtenderConfig(scheduler_name=SCHEDULER, until_counted=until_counted),
                self.rng(f"replica {number}"),
                folder / f"costs-{number}.json",
                self.history,
                self._annotated,
            )
            for number in range(2 if self.fault.two_replicas else 1)
        ]
        self.nodes = Nodes(
            self.env,
            self.api,
            room,
            self.replicas,
            _NODES,
            self.fault.speed,
            self.rng("nodes"),
            self.history,
        )
        self.schedulers = [
            KubeScheduler(
                f"scheduler-{number}",
                self.env,
                self.api,
                self.nodes,
                replica,
                self.fault.habits,
                self.rng(f"scheduler {number}"),
                self.history,
            )
            for number, replica in enumerate(self.replicas)
        ]
        self._images: dict[str, str] = {}
        self._waited: dict[str, float] = {}
        self._unused: dict[Unused, float] = {}

    def rng(self, purpose: str) -> random.Random:
        """Return a generator for one purpose, so that what one part draws does not change another."""
        return random.Random(f"{self._rng.random()} {purpose}")

    @property
    def leader(self) -> KubeScheduler | None:
        """The scheduler that leads."""
        return next((scheduler for scheduler in self.schedulers if scheduler.running), None)

    def run(self) -> History:
        """Run until all pods are gone, and return what happened."""
        env, findings = self.env, self.history.findings
        env.timeout(3.0).callbacks.append(lambda _event: self.schedulers[0].start())
        over = env.process(self._arrive(self.rng("arrivals")))
        faults = env.process(self.fault.inject(self, self.rng("faults")))
        env.process(self._look())
        while not (over.processed and faults.processed and all(pod.ended for pod in self.api.pods.values())):
            if env.now > _LONGEST_S:
                break
            env.step()
        for pod in list(self.api.pods.values()):
            if not pod.ended:
                findings.lost += 1
                self.history.violation(f"{pod.uid} is lost: {pod.phase}, node={pod.node or '-'}")
            self.api.remove(pod)
        end = env.now + _DRAINED_AFTER_S
        while env.peek() < end:
            env.step()
        self._look_for_leaks()
        return self.history

    def fault_injected(self, what: str) -> None:
        """Count and note a fault."""
        self.history.findings.faults += 1
        self.history.note(f"FAULT: {what}")

    def _annotated(self) -> None:
        if self.leader is not None:
            self.leader.something_changed()

    def _arrive(self, rng: random.Random) -> Steps:
        yield self.env.timeout(5.0)
        created = 0
        while created < self._pods:
            for _ in range(min(rng.randint(1, 30), self._pods - created)):
                created += 1
                uid = f"pod-{created}"
                self._images[uid] = rng.choice(list(WORKLOADS))
                self.history.findings.pods += 1
                self.api.create(uid, self._images[uid])
                if rng.random() < self.fault.deletions:
                    self.env.process(self._delete(uid, rng.uniform(0.0, 20.0)))
                yield self.env.timeout(rng.uniform(0.0, 0.05))
            yield self.env.timeout(rng.expovariate(10.0 / _ARRIVE_WITHIN_S))
        yield self.env.timeout(1.0)

    def _delete(self, uid: str, seconds: float) -> Steps:
        yield self.env.timeout(seconds)
        while not self.api.up:
            yield self.env.timeout(0.5)
        if uid in self.api.pods:
            self.fault_injected(f"{uid} is deleted")
            self.api.delete(self.api.pods[uid])

    def _look(self) -> Steps:
        """Once a second, look which pods wait although there is room."""
        while True:
            yield self.env.timeout(1.0)
            leader = self.leader
            if leader is None or not self.api.up or not leader.replica.alive:
                self._waited.clear()
                self._unused.clear()
                continue
            room = {image: self.nodes.with_room(image, leader.replica) for image in WORKLOADS}
            waited: dict[str, float] = {}
            unused: dict[Unused, float] = {}
            for pod in self.api.pods.values():
                if pod.node or pod.deleting or pod.uid in leader.under_way:
                    continue
                for node in room[pod.workload]:
                    waited[pod.uid] = self._waited.get(pod.uid, 0.0) + 1.0
                    place = node.name, frozenset(node.claims)
                    unused[place] = self._unused.get(place, 0.0) + 1.0
            self._waited, self._unused = waited, unused
            for uid, seconds in waited.items():
                self._check(f"{uid} waits beside room", seconds, self.fault.waited_s)
            for (name, _), seconds in unused.items():
                self._check(f"room on {name} stays unused", seconds, self.fault.unused_s)
            findings = self.history.findings
            findings.waited_s = max(findings.waited_s, *waited.values(), 0.0)
            findings.unused_s = max(findings.unused_s, *unused.values(), 0.0)

    def _check(self, what: str, seconds: float, most_s: float) -> None:
        # Once for every pod and place: both are looked at once a second.
        if most_s < seconds <= most_s + 1.0:
            self.history.findings.starved += 1
            self.history.violation(f"{what} for {seconds:g} s, and {most_s:g} s are allowed")

    def _look_for_leaks(self) -> None:
        for replica in self.replicas:
            if not replica.alive:
                continue
            for name in ("carico_extender_reservations", "carico_extender_waiting_pods"):
                if replica.metric(name):
                    self._leak(f"{replica.name}: {name} is {replica.metric(name):g}")
            for part in (replica.core, replica.reflector):
                for where in _holders(part, self._images.keys()):
                    self._leak(f"{replica.name}: {where}")

    def _leak(self, what: str) -> None:
        self.history.findings.leaks.append(what)
        self.history.violation(f"leak: {what}")


def _holders(root: object, uids: Any) -> list[str]:
    """Return which attributes of CARICO's objects below `root` still hold the UID of a pod."""
    found: list[str] = []
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [(type(root).__name__, root)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, str):
            if value in uids:
                found.append(f"{where} holds {value}")
        elif id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, dict):
                waiting += [(where, part) for pair in value.items() for part in pair]
            elif isinstance(value, (list, tuple, set, frozenset)):
                waiting += [(where, part) for part in value]
            elif type(value).__module__.startswith("carico.") and hasattr(value, "__dict__"):
                waiting += [(f"{where}.{name}", part) for name, part in vars(value).items()]
    return sorted(set(found))
