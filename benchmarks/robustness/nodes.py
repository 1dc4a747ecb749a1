"""The model of nodes: what truly runs there, the kubelet, and the agent with its link to every replica.

The agent counts a pod when its container starts, and its report carries what all counted pods demand, as CARICO's
agents do once they have learned what pods cost. So whatever is placed over capacity is the fault of reservations.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import simpy

from benchmarks.robustness.api import Api, Pod
from benchmarks.robustness.history import History
from benchmarks.robustness.replica import Replica
from carico.demand.filling import level
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.settings import DemandVariant
from carico.demand.workload import workload_of
from carico.rpc.messages import write_report
from carico.scheduling.report import CapacityReport
from carico.scheduling.scheduler import STALE_AFTER_S

Steps = Generator[simpy.Event, Any, None]


class Cost(NamedTuple):
    """What a pod of a workload truly demands."""

    cores: float
    gib: float


WORKLOADS = {"small:1": Cost(0.5, 0.3), "large:1": Cost(1.0, 0.45)}
"""By image. None costs more than is assumed of an unknown workload, so that costs are never underestimated."""
NAMES = {image: workload_of(Pod("pod", image, 0.0).as_object()) for image in WORKLOADS}
"""The workloads' names in reports, by image."""
_IDLE = Cost(0.2, 0.4)
_CORES = 4.0
_CERTAIN = 1e-6


@dataclass
class Speed:
    """How long things take that are not faults, seconds."""

    slow_image: float = 0.0
    """Share of pods whose image takes long to pull."""
    slow_image_s: float = 120.0


class Room(Protocol):
    """The truth about a node's room, and how the node reports it, under one kind of variant."""

    def fits(self, node: Node, image: str, claims: Mapping[str, str]) -> bool:
        """Whether the node has room for a pod beside pods that have a claim to it, by UID their image."""
        ...

    def report(self, node: Node) -> dict[str, Any]:
        """Return what the report says besides the node's name and the time."""
        ...

    reports_events: bool
    """Whether a report follows every pod event at once."""


class PodCapacityRoom:
    """The thesis's variants: a node takes a number of pods, whatever they are.

    Parameters
    ----------
    older_agents : bool
        Whether agents are too old to say which pods they count.
    """

    reports_events = False
    capacity = 4.6

    def __init__(self, older_agents: bool) -> None:
        self._older_agents = older_agents

    def fits(self, node: Node, image: str, claims: Mapping[str, str]) -> bool:
        """See `Room`."""
        return self.capacity - len(claims) >= 1

    def report(self, node: Node) -> dict[str, Any]:
        """See `Room`."""
        counted = None if self._older_agents else frozenset(node.counted)
        return {"pod_capacity": max(self.capacity - len(node.counted), 0.0), "counted": counted}


class DemandRoom:
    """The variant `demand`: a node is filled to a level of CPU, and its memory is never exceeded.

    Parameters
    ----------
    variant : DemandVariant
        Must know one level only, because the higher one depends on what waits.
    """

    reports_events = True

    def __init__(self, variant: DemandVariant) -> None:
        self._level = float(level(variant, _CORES, 0.0, share=True))  # type: ignore[arg-type]
        self._memory_limit = variant.memory_limit

    def fits(self, node: Node, image: str, claims: Mapping[str, str]) -> bool:
        """See `Room`."""
        cost = _demand(claims)
        return cost.cores < self._level and cost.gib + WORKLOADS[image].gib <= self._memory_limit * node.gib

    def report(self, node: Node) -> dict[str, Any]:
        """See `Room`."""
        held = _demand(node.counted)
        images = list(node.counted.values())
        workloads = {
            NAMES[image]: WorkloadReport(
                images.count(image), 0.0, Estimate(cost.cores, _CERTAIN), Estimate(cost.gib, _CERTAIN)
            )
            for image, cost in WORKLOADS.items()
        }
        counted = {uid: NAMES[image] for uid, image in node.counted.items()}
        demand = DemandReport(
            node.name, _CORES, node.gib, Estimate(held.cores, 0.0), held.gib, _IDLE.gib, workloads, counted
        )
        return {"pod_capacity": 0.0, "demand": demand}


class Link:
    """The connection from an agent to a replica: reports arrive in order, or later, or not at all."""

    def __init__(self, env: simpy.Environment, replica: Replica, rng: random.Random) -> None:
        self._env = env
        self._rng = rng
        self.replica = replica
        self._due = 0.0
        self._stuck: list[bytes] | None = None
        """What was sent while the link is down and arrives when it is up again."""
        self._keeps = False
        self.arrived_at = -STALE_AFTER_S
        """When a report last arrived."""

    def send(self, data: bytes) -> None:
        """Send a report."""
        if self._stuck is not None:
            self._stuck = [*self._stuck, data] if self._keeps else [data]
            return
        self._later(data, self._rng.uniform(0.001, 0.05))

    def cut(self, seconds: float, keeps: bool) -> None:
        """Let nothing arrive for a time; then what was sent arrives at once, or only the newest of it."""
        if self._stuck is None:
            self._stuck, self._keeps = [], keeps
            self._env.timeout(seconds).callbacks.append(lambda _event: self._mend())

    def _mend(self) -> None:
        stuck, self._stuck = self._stuck or [], None
        repeated = [self._rng.choice(stuck)] if stuck and self._keeps else []
        for data in [*stuck, *repeated]:
            self._later(data, self._rng.uniform(0.0, 0.2))

    def _later(self, data: bytes, delay_s: float) -> None:
        self._due = max(self._due, self._env.now + delay_s)
        self._env.timeout(self._due - self._env.now).callbacks.append(lambda _event: self._arrive(data))

    def _arrive(self, data: bytes) -> None:
        if self.replica.alive:
            self.arrived_at = self._env.now
            self.replica.report(data)


class Node:
    """A node, its agent, and the pods that have a claim to it.

    Parameters
    ----------
    name : str
    gib : float
    links : list of Link
    """

    def __init__(self, name: str, gib: float, links: list[Link]) -> None:
        self.name = name
        self.gib = gib
        self.links = links
        self.claims: dict[str, str] = {}
        """The truth: the pods that were given the node and have not ended, by UID their image."""
        self.running: dict[str, str] = {}
        """Those whose containers run."""
        self.named: dict[str, str] = {}
        """Those whose names the agent can learn; it counts no others."""
        self.unnamed_until = 0.0
        """Until then, the agent learns of no pod that starts."""
        self.counted: dict[str, str] = {}
        """Those that the agent counts."""
        self.too_many: set[str] = set()
        """Those that there was no room for."""
        self.late: set[str] = set()
        """Those that a former leader bound after another took over."""
        self.agent_up = True
        self.sequence = 0


class Nodes:
    """All nodes, their kubelets and their agents.

    Parameters
    ----------
    env : simpy.Environment
    api : Api
    room : Room
    replicas : list of Replica
    number : int
        How many nodes there are.
    speed : Speed
    rng : random.Random
    history : History
    """

    def __init__(
        self,
        env: simpy.Environment,
        api: Api,
        room: Room,
        replicas: list[Replica],
        number: int,
        speed: Speed,
        rng: random.Random,
        history: History,
    ) -> None:
        self._env = env
        self._api = api
        self._room = room
        self._speed = speed
        self._rng = rng
        self._history = history
        self.by_name: dict[str, Node] = {}
        for index in range(number):
            name = f"node-{index}"
            links = [Link(env, replica, rng) for replica in replicas]
            # On every other node memory is scarcer than CPU.
            self.by_name[name] = Node(name, gib=16.0 if index % 2 else 2.2, links=links)
            env.process(self._report_every_second(self.by_name[name]))
        self._deleted: dict[str, simpy.Event] = {}
        api.subscribers.append(self._api_changed)

    def assume(self, uid: str, image: str, node: str, late: bool = False) -> None:
        """Note that kube-scheduler binds a pod to a node, and judge that.

        A pod that is bound late may find no room, and so may pods that were placed before the scheduler saw it. At any
        time these are at most as many as were bound late: without those, all others must fit.
        """
        on, findings = self.by_name[node], self._history.findings
        if late:
            on.late.add(uid)
            findings.late += 1
        if not self._room.fits(on, image, on.claims):
            on.too_many.add(uid)
            findings.over += 1
            findings.worst = max(findings.worst, len(on.too_many))
            what = f"{uid} has no room on {node}, which has {', '.join(on.claims) or 'nothing'}"
            seen = {other: of for other, of in on.claims.items() if other not in on.late}
            if late or self._room.fits(on, image, seen):
                self._history.note(what)
            else:
                findings.beyond += 1
                self._history.violation(what)
        on.claims[uid] = image

    def give_up(self, uid: str, node: str) -> None:
        """Note that a pod no longer has a claim to a node."""
        self.by_name[node].claims.pop(uid, None)
        self.by_name[node].too_many.discard(uid)
        self.by_name[node].late.discard(uid)

    def with_room(self, image: str, replica: Replica) -> list[Node]:
        """Return the nodes that have room for a pod, and whose reports arrive at a replica."""
        oldest = self._env.now - STALE_AFTER_S / 2
        return [
            node
            for node in self.by_name.values()
            if node.agent_up
            and any(link.replica is replica and link.arrived_at >= oldest for link in node.links)
            and self._room.fits(node, image, node.claims)
        ]

    def end_agent(self, node: Node, killed: bool) -> None:
        """End a node's agent, which withdraws its offer unless it is killed."""
        if not node.agent_up:
            return
        self._history.note(f"{node.name}: agent {'killed' if killed else 'ends'}")
        node.agent_up = False
        if not killed:
            self._send(node, {"pod_capacity": 0.0})

    def start_agent(self, node: Node) -> None:
        """Start a node's agent, which lists what runs, as far as it can."""
        if node.agent_up:
            return
        self._history.note(f"{node.name}: agent starts")
        node.agent_up, node.sequence, node.counted = True, 0, dict(node.named)
        self._send(node, self._room.report(node))

    def _report_every_second(self, node: Node) -> Steps:
        yield self._env.timeout(self._rng.uniform(0.0, 1.0))
        while True:
            if node.agent_up:
                self._send(node, self._room.report(node))
            yield self._env.timeout(1.0)

    def _send(self, node: Node, content: dict[str, Any]) -> None:
        node.sequence += 1
        report = CapacityReport(
            node.name, pods=len(node.counted), at_unix_s=self._env.now, sequence=node.sequence, **content
        )
        data = write_report(report)
        for link in node.links:
            link.send(data)

    def _api_changed(self, kind: str, pod: Pod) -> None:
        if pod.deleting and pod.uid in self._deleted and not self._deleted[pod.uid].triggered:
            self._deleted[pod.uid].succeed()
        elif kind == "MODIFIED" and pod.node and pod.uid not in self._deleted:
            for name in self.by_name.keys() - {pod.node}:
                self.give_up(pod.uid, name)  # from now on, the API server refuses to bind the pod there
            self._deleted[pod.uid] = self._env.event()
            self._env.process(self._kubelet(pod, self.by_name[pod.node]))

    def _kubelet(self, pod: Pod, node: Node) -> Steps:
        env, rng, deleted = self._env, self._rng, self._deleted[pod.uid]
        yield env.timeout(rng.uniform(0.01, 0.2))
        yield from self._until_up()
        if rng.random() < self._speed.slow_image:
            yield env.timeout(rng.uniform(5.0, self._speed.slow_image_s)) | deleted
        yield env.timeout(rng.uniform(0.2, 1.5)) | deleted
        if not deleted.triggered:
            node.running[pod.uid] = pod.workload
            env.process(self._tell_agent(node, pod, +1))
            self._history.note(f"{node.name}: {pod.uid} starts")
            shown = env.process(self._show(pod, "Running"))
            yield env.timeout(rng.uniform(5.0, 30.0)) | deleted
            if deleted.triggered:
                yield env.timeout(rng.uniform(0.0, 2.0))
            del node.running[pod.uid]
            env.process(self._tell_agent(node, pod, -1))
            self._history.note(f"{node.name}: {pod.uid} stops")
            self.give_up(pod.uid, node.name)
            yield shown
        self.give_up(pod.uid, node.name)
        if deleted.triggered:
            yield from self._until_up()
            self._api.remove(pod)
        else:
            yield from self._show(pod, "Succeeded")
            if pod.deleting:
                self._api.remove(pod)

    def _show(self, pod: Pod, phase: str) -> Steps:
        yield self._env.timeout(self._rng.uniform(0.05, 1.5))
        yield from self._until_up()
        self._api.show(pod, phase)

    def _tell_agent(self, node: Node, pod: Pod, change: int) -> Steps:
        yield self._env.timeout(self._rng.uniform(0.0, 0.05))
        while change > 0 and self._env.now < node.unnamed_until:
            yield self._env.timeout(node.unnamed_until - self._env.now)
        if change < 0:
            node.named.pop(pod.uid, None)
        elif pod.uid in node.running:
            node.named[pod.uid] = pod.workload
        if not node.agent_up:
            return
        if change < 0:
            node.counted.pop(pod.uid, None)
        elif pod.uid in node.named:
            node.counted[pod.uid] = pod.workload
        if self._room.reports_events:
            self._send(node, self._room.report(node))

    def _until_up(self) -> Steps:
        while not self._api.up:
            yield self._env.timeout(0.5)


def _demand(pods: Mapping[str, str]) -> Cost:
    costs = [WORKLOADS[image] for image in pods.values()]
    return Cost(_IDLE.cores + sum(cost.cores for cost in costs), _IDLE.gib + sum(cost.gib for cost in costs))
