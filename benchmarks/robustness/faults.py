"""The faults: what goes wrong in a run, by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
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
    """

    description: str
    inject: Inject = _nothing
    habits: Habits = field(default_factory=Habits)
    speed: Speed = field(default_factory=Speed)
    deletions: float = 0.0
    two_replicas: bool = False


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
    "watch-broken": Fault("the watch on pods breaks for up to 40 s", _now_and_then(_break_watch), speed=_SLOW),
    "api-outage": Fault(
        "the API server is down for up to 40 s; it may have made bindings that it reports as failed",
        _now_and_then(_api_outage),
        Habits(unknown_binds=0.05),
    ),
    "deletions": Fault("half of all pods are deleted early", deletions=0.5, speed=_SLOW),
    "duplicates": Fault("half of all requests arrive twice, and either answer counts", habits=Habits(duplicates=0.5)),
    "concurrent-clients": Fault("eight scheduling cycles run at once", habits=Habits(clients=8)),
    "failed-binds": Fault("a binding in five fails and is undone", habits=Habits(failed_binds=0.2, unknown_binds=0.05)),
    "lost-answers": Fault("an answer in five is lost", habits=Habits(lost_answers=0.2)),
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
    ),
    "takeover-silent": Fault(
        "the other replica takes over while its watch is stuck",
        _now_and_then(_take_over_in_silence),
        speed=_SLOW,
        two_replicas=True,
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
    ),
}
