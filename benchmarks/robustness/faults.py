"""The faults: what goes wrong in a run, by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import simpy

from benchmarks.robustness.api import WatchedPods
from benchmarks.robustness.kube_scheduler import Habits
from benchmarks.robustness.nodes import Speed

if TYPE_CHECKING:
    from benchmarks.robustness.run import Run

Steps = Generator[simpy.Event, Any, None]
Inject = Callable[["Run", random.Random], Steps]
_FAULTY_S = 70.0
"""For how long faults are injected, from the beginning of the run."""
_BROKEN_S = _FAULTY_S + 40.0 + 5.0
"""For how long a watch may be broken, if every break is followed by another: the last one lasts for 40 s, and the watch
is tried again every 5 s while pods are asked for."""
_ASKED_AGAIN_S, _HELD_S = 150.0, 25.0
"""For how long a pod waits whose binding failed, or about which an answer was lost, and for how long its place is held:
until kube-scheduler asks about the pod again, which it does behind all others."""
_UNTOLD_S, _UNTOLD_UNUSED_S = 250.0, 30.0
"""The bounds if agents do not say which pods they count: every pod holds its place for 10 s while it runs, too."""


def _nothing(run: Run, _rng: random.Random) -> Steps:
    yield run.env.timeout(0.0)


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Parameters
    ----------
    description : str
    inject : callable, optional
        A process that causes faults during a run.
    habits : Habits, optional
        What goes wrong with calls all the time.
    speed : Speed, optional
    deletions : float, optional
        Share of pods that are deleted within 20 s of their creation.
    two_replicas : bool, optional
    waited_s : float, optional
        For how long a pod may wait while some node has room for it, though others may be placed meanwhile.
    unused_s : float, optional
        For how long a node may have room for a pod that waits without any pod getting it. A node wakes refused pods
        every 5 s at most, and kube-scheduler tries one again after a second.
    """

    description: str
    inject: Inject = _nothing
    habits: Habits = field(default_factory=Habits)
    speed: Speed = field(default_factory=Speed)
    deletions: float = 0.0
    two_replicas: bool = False
    waited_s: float = 30.0
    unused_s: float = 10.0


def _now_and_then(inject: Inject, every_s: float = 15.0) -> Inject:
    def injected(run: Run, rng: random.Random) -> Steps:
        yield run.env.timeout(6.0)
        while run.env.now < _FAULTY_S:
            yield run.env.timeout(rng.expovariate(1.0 / every_s))
            yield from inject(run, rng)

    return injected


def _kill_extender(run: Run, rng: random.Random) -> Steps:
    replica = run.replicas[0]
    run.fault_injected("the extender is killed")
    replica.kill()
    yield run.env.timeout(rng.uniform(0.2, 5.0))
    if rng.random() < 0.3 and replica.checkpoint.exists():
        if rng.random() < 0.5:
            replica.checkpoint.unlink()
        else:
            replica.checkpoint.write_bytes(replica.checkpoint.read_bytes()[: rng.randint(0, 200)])
    replica.start()
    yield run.env.timeout(rng.uniform(0.0, 10.0))


def _break_watch(run: Run, rng: random.Random) -> Steps:
    replica, seconds = rng.choice(run.replicas), rng.choice([0.1, 5.0, 40.0])
    run.fault_injected(f"the watch of {replica.name} breaks for {seconds:g} s")
    replica.pods.cut(seconds)
    if rng.random() < 0.5:
        run.api.forgotten = len(run.api.log) + rng.randint(-3, 3)
    yield run.env.timeout(seconds)


def _api_outage(run: Run, rng: random.Random) -> Steps:
    run.fault_injected("the API server is down")
    run.api.up = False
    for replica in run.replicas:
        replica.pods.cut(0.0)
    yield run.env.timeout(rng.choice([1.0, 10.0, 40.0]))
    run.history.note("the API server is up again")
    run.api.up = True


def _silence_node(run: Run, rng: random.Random) -> Steps:
    node = rng.choice(list(run.nodes.by_name.values()))
    run.fault_injected(f"{node.name} falls silent")
    run.nodes.end_agent(node, killed=True)
    yield run.env.timeout(rng.choice([3.0, 8.0, 20.0, 40.0]))
    run.nodes.start_agent(node)


def _restart_agent(run: Run, rng: random.Random) -> Steps:
    node = rng.choice(list(run.nodes.by_name.values()))
    run.fault_injected(f"{node.name} restarts its agent")
    run.nodes.end_agent(node, killed=False)
    yield run.env.timeout(rng.uniform(0.3, 4.0))
    run.nodes.start_agent(node)


def _cut_link(run: Run, rng: random.Random) -> Steps:
    node, seconds = rng.choice(list(run.nodes.by_name.values())), rng.choice([1.5, 4.0, 8.0, 30.0])
    keeps = rng.random() < 0.7
    run.fault_injected(f"reports of {node.name} are stuck for {seconds:g} s, {'all' if keeps else 'the newest'} kept")
    for link in node.links:
        link.cut(seconds, keeps)
    yield run.env.timeout(rng.uniform(0.0, seconds))


def _stop_names(run: Run, rng: random.Random) -> Steps:
    """Let an agent learn nothing of pods that start, as when the process that copies their names for it is down."""
    node, seconds = rng.choice(list(run.nodes.by_name.values())), rng.choice([8.0, 15.0, 40.0])
    run.fault_injected(f"the agent of {node.name} learns of no pod that starts for {seconds:g} s")
    node.unnamed_until = max(node.unnamed_until, run.env.now + seconds)
    yield run.env.timeout(rng.uniform(0.0, seconds))


def _take_over(run: Run, rng: random.Random) -> Steps:
    """Let the other replica lead, as when a pod is evicted or a lock is lost; sometimes its extender is new as well."""
    leader = run.leader
    if leader is None:
        return
    run.fault_injected("another replica takes over")
    leader.stop()
    dies = rng.random() < 0.5
    if dies:
        leader.replica.kill()
    yield run.env.timeout(rng.uniform(0.5, 16.0))
    following = run.schedulers[1 - run.schedulers.index(leader)]
    following.start()
    yield run.env.timeout(rng.uniform(0.0, 20.0))
    if dies:
        leader.replica.start()


def _take_over_blindly(run: Run, rng: random.Random) -> Steps:
    """Let another replica take over while its watch on pods is broken."""
    yield from _take_over_behind(run, rng, "breaks", WatchedPods.cut)


def _take_over_in_silence(run: Run, rng: random.Random) -> Steps:
    """Let another replica take over while its watch on pods is stuck, which only a listing shows."""
    yield from _take_over_behind(run, rng, "falls silent", WatchedPods.fall_silent)


def _take_over_behind(run: Run, rng: random.Random, what: str, hinder: Callable[[WatchedPods, float], None]) -> Steps:
    leader = run.leader
    if leader is not None:
        other = run.schedulers[1 - run.schedulers.index(leader)].replica
        run.fault_injected(f"the watch of {other.name} {what}")
        hinder(other.pods, 40.0)
        yield run.env.timeout(rng.uniform(0.0, 10.0))
    yield from _take_over(run, rng)


def _everything(run: Run, rng: random.Random) -> Steps:
    inject = rng.choice(
        [_kill_extender, _break_watch, _api_outage, _silence_node, _restart_agent, _cut_link, _stop_names, _take_over]
    )
    if inject is _kill_extender and not run.replicas[0].alive:
        return
    yield from inject(run, rng)


_SLOW = Speed(slow_image=0.2)
FAULTS: dict[str, Fault] = {
    "none": Fault("no fault"),
    "slow-images": Fault("a pod in five needs up to 2 min for its image", speed=_SLOW),
    "extender-killed": Fault(
        "the extender is killed and restarts from a checkpoint that is old, lost or damaged",
        _now_and_then(_kill_extender),
        speed=_SLOW,
    ),
    "watch-broken": Fault(
        "the watch on pods breaks for up to 40 s",
        _now_and_then(_break_watch),
        speed=_SLOW,
        waited_s=_BROKEN_S,
        unused_s=_BROKEN_S,
    ),
    "api-outage": Fault(
        "the API server is down for up to 40 s; it may have made bindings that it reports as failed",
        _now_and_then(_api_outage),
        Habits(unknown_binds=0.05),
        unused_s=15.0,
    ),
    "deletions": Fault("half of all pods are deleted early", deletions=0.5, speed=_SLOW),
    "duplicates": Fault(
        "half of all requests arrive twice, and either answer counts",
        habits=Habits(duplicates=0.5),
        waited_s=40.0,
        unused_s=15.0,
    ),
    "concurrent-clients": Fault("eight scheduling cycles run at once", habits=Habits(clients=8)),
    "failed-binds": Fault(
        "a binding in five fails and is undone",
        habits=Habits(failed_binds=0.2, unknown_binds=0.05),
        waited_s=_ASKED_AGAIN_S,
        unused_s=_HELD_S,
    ),
    "lost-answers": Fault(
        "an answer in five is lost", habits=Habits(lost_answers=0.2), waited_s=_ASKED_AGAIN_S, unused_s=_HELD_S
    ),
    "slow-binds": Fault("a binding in ten takes up to 1,200 s", habits=Habits(slow_binds=0.1)),
    "silent-node": Fault("an agent is killed for up to 40 s", _now_and_then(_silence_node)),
    "agent-restart": Fault("an agent ends and starts again within 4 s", _now_and_then(_restart_agent, 8.0)),
    "late-reports": Fault("reports are stuck for up to 30 s, arrive at once, or twice", _now_and_then(_cut_link, 8.0)),
    "late-counts": Fault("an agent counts pods up to 40 s late, though it reports", _now_and_then(_stop_names, 4.0)),
    "takeover": Fault(
        "the other replica takes over",
        _now_and_then(_take_over),
        Habits(slow_binds=0.1),
        _SLOW,
        two_replicas=True,
    ),
    "takeover-blind": Fault(
        "the other replica takes over while its watch is broken",
        _now_and_then(_take_over_blindly),
        speed=_SLOW,
        two_replicas=True,
        waited_s=_BROKEN_S,
        unused_s=_BROKEN_S,
    ),
    "takeover-silent": Fault(
        "the other replica takes over while its watch is stuck",
        _now_and_then(_take_over_in_silence),
        speed=_SLOW,
        two_replicas=True,
        waited_s=60.0,
        unused_s=45.0,
    ),
    "takeover-late-binds": Fault(
        "the other replica takes over, and calls of the former leader bind pods up to 60 s later",
        _now_and_then(_take_over),
        Habits(slow_calls=0.3),
        two_replicas=True,
    ),
    "everything": Fault(
        "all of these in turn, and calls that go wrong",
        _now_and_then(_everything, 5.0),
        Habits(2, failed_binds=0.05, unknown_binds=0.02, lost_answers=0.05),
        Speed(0.1, 60.0),
        deletions=0.1,
        two_replicas=True,
        waited_s=_BROKEN_S,
        unused_s=45.0,
    ),
}


def fault_named(name: str, older_agents: bool = False) -> Fault:
    """Return a fault with the bounds that hold for these agents, see `PodCapacityRoom`."""
    fault = FAULTS[name]
    if not older_agents:
        return fault
    waited_s, unused_s = max(fault.waited_s, _UNTOLD_S), max(fault.unused_s, _UNTOLD_UNUSED_S)
    return replace(fault, waited_s=waited_s, unused_s=unused_s)
