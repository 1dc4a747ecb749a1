"""Bursts of containers on a node of a real cluster: measures what their starts and ends cost.

A burst is several pods at once that do nothing: each prints when it began, sleeps until a time that all of them know,
and prints when it ends. The node's counters are read all the while, and a watch follows the pods.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from carico.clock import SystemClock
from carico.kube.reflector import Reflector
from carico.telemetry.counters import Counters
from carico.telemetry.source import TelemetrySource
from testbed.errors import ClusterError
from testbed.real.api import ClusterApi, Json
from testbed.real.program_pods import PrintedTimes, printed_times
from testbed.real.waiting import wait_until
from testbed.simulation.parameters import SAMPLE_PERIOD_S

SETTLE_S = 3.0
"""Wait after a burst, until kubelet and runtime have finished their work for it."""
HELD_S = 6.0
"""Time for which the sleeping pods are observed."""
READ_EVERY_S = 0.02
"""Time between two readings of the node's CPU time."""
_TIMEOUT_S = 120.0
_PROGRAM = """\
import sys, time
from workloads.process_times import printed_times
time.sleep(max(float(sys.argv[1]) - time.time(), 0))
print(printed_times(), flush=True)
"""


@dataclass(frozen=True)
class Idle:
    """The CPU time of a node over some time."""

    lasted_s: float
    cpu_s: float


@dataclass(frozen=True)
class IdleNode:
    """A node with nothing to do, as an agent sees it."""

    whole: Idle
    cpu_variation: float
    """Coefficient of variation of its CPU use from sample to sample."""
    memory: float
    """Share of its memory that is in use."""
    memory_variation: float
    """Coefficient of variation of that share from sample to sample."""


@dataclass(frozen=True)
class Burst:
    """The measurements of a burst."""

    pods: int
    start_latency_s: list[float]
    """From each pod's creation in the API to the start of its program."""
    running_visible_s: list[float]
    """From the program's start until a watch showed the pod as Running."""
    finished_visible_s: list[float]
    """From the program's end until a watch showed the pod as Succeeded."""
    start_cpu_s: float
    """CPU time of the node from the first pod's creation until all had settled, without that of the programs."""
    start_lasted_s: float
    begun_cpu_s: float
    """The part of it from the moment when the last program began."""
    begun_lasted_s: float
    start_pressure: float
    """Mean CPU pressure from the creation until the last program began."""
    stop_cpu_s: float
    stop_lasted_s: float
    held: Idle
    """Between starts and ends, with all pods asleep."""


def idle_node(source: TelemetrySource, lasts_s: float) -> IdleNode:
    """Sample a node's counters ten times a second for `lasts_s` seconds."""
    began, read = time.monotonic(), [source.read()]
    while (at := began + len(read) * SAMPLE_PERIOD_S) <= began + lasts_s:
        time.sleep(max(at - time.monotonic(), 0.0))
        read.append(source.read())
    whole = _between(read[0], read[-1])
    rates = [one.cpu_s / one.lasted_s for one in starmap(_between, pairwise(read))]
    free = [float((one.memory_free + one.memory_buffers + one.memory_cached) / one.memory_total) for one in read]
    memory = 1.0 - np.array(free)
    return IdleNode(
        whole, float(np.std(rates) / np.mean(rates)), float(memory.mean()), float(memory.std() / memory.mean())
    )


def burst(api: ClusterApi, namespace: str, spec: Mapping[str, Any], source: TelemetrySource, pods: int) -> Burst:
    """Start and end several pods at the same time.

    Parameters
    ----------
    api : ClusterApi
    namespace : str
        Must have no other pods.
    spec : mapping
        Spec of a pod with a node, and an image that has Python.
    source : TelemetrySource
        Reads the node's counters.
    pods : int

    Raises
    ------
    WaitTimedOut
        If the pods do not begin or end in time.
    ClusterError
        If starting takes so long that no time is left to observe the sleeping pods, or a pod printed no times.
    KubeError, TelemetryError
        If the API server or the node's counters cannot be read.
    """
    with _watched(api, namespace) as heard, _followed(source) as node:
        first_s, created_s = time.time(), []
        deadline = first_s + _allowance_s(pods) + SETTLE_S + HELD_S
        names = [f"burst-{number}" for number in range(pods)]
        for name in names:
            api.create_pod(namespace, _pod(name, spec, deadline))
            created_s.append(time.time())
        wait_until("all pods run", lambda: _without(heard, names, "Running"), _TIMEOUT_S, 0.1)
        running_s = time.time()
        time.sleep(SETTLE_S)
        settled_s = time.time()
        if settled_s > deadline - HELD_S / 2:
            raise ClusterError(
                f"{pods} pods took {settled_s - created_s[0]:.0f} s to start, of which {_allowance_s(pods):g} s were "
                f"expected: nothing else may run on this machine while it is measured"
            )
        time.sleep(max(deadline - 0.2 - time.time(), 0.0))
        asleep_s = time.time()
        wait_until("all pods have ended", lambda: _without(heard, names, "Succeeded"), _TIMEOUT_S, 0.1)
        time.sleep(SETTLE_S)
        over_s = time.time()
        printed = [_printed(api.log(namespace, name, "burst"), name) for name in names]
    last = max(printed, key=lambda one: one.began_unix_s)
    started, begun = node.cpu(first_s, settled_s), node.cpu(last.began_unix_s, settled_s)
    stopped = node.cpu(asleep_s, over_s)
    return Burst(
        pods=pods,
        start_latency_s=[one.began_unix_s - at for one, at in zip(printed, created_s, strict=True)],
        running_visible_s=[heard[name, "Running"] - one.began_unix_s for name, one in zip(names, printed, strict=True)],
        finished_visible_s=[
            heard[name, "Succeeded"] - one.ended_unix_s for name, one in zip(names, printed, strict=True)
        ],
        start_cpu_s=started.cpu_s - sum(one.cpu_s for one in printed),
        start_lasted_s=started.lasted_s,
        begun_cpu_s=begun.cpu_s - last.cpu_s,
        begun_lasted_s=begun.lasted_s,
        start_pressure=node.pressure(first_s, running_s),
        stop_cpu_s=stopped.cpu_s,
        stop_lasted_s=stopped.lasted_s,
        held=node.cpu(settled_s, asleep_s),
    )


def _printed(log: str, pod: str) -> PrintedTimes:
    times = printed_times(log)
    if times is None:
        raise ClusterError(f"pod {pod} did not print its times; its log: {log.strip()[:200]!r}")
    return times


def _allowance_s(pods: int) -> float:
    """Return the seconds that starting pods may take on half a CPU."""
    return 6.0 + 3.0 * pods


def _pod(name: str, spec: Mapping[str, Any], deadline: float) -> Json:
    (container,) = spec["containers"]
    program = {**container, "name": "burst", "command": ["python3", "-c", _PROGRAM, f"{deadline:.3f}"]}
    return {"metadata": {"name": name}, "spec": {**spec, "restartPolicy": "Never", "containers": [program]}}


def _without(heard: Mapping[tuple[str, str], float], names: Sequence[str], phase: str) -> str:
    missing = [name for name in names if (name, phase) not in heard]
    return f"{', '.join(missing)} not yet {phase}" if missing else ""


class NodeTrace:
    """The CPU time and the CPU pressure of a node, reading by reading; times are seconds since 1970."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, float]] = []

    def add(self, at_s: float, counters: Counters) -> None:
        """Add a reading of a control group's counters."""
        self._rows.append((at_s, _used_s(counters), float(counters.cpu_pressure_us) / 1e6))

    def cpu(self, first_s: float, last_s: float) -> Idle:
        """Return the CPU time between two times, interpolated between readings."""
        return Idle(last_s - first_s, self._grown(1, first_s, last_s))

    def pressure(self, first_s: float, last_s: float) -> float:
        """Return the mean CPU pressure between two times, interpolated between readings."""
        return self._grown(2, first_s, last_s) / (last_s - first_s)

    def _grown(self, column: int, first_s: float, last_s: float) -> float:
        rows = np.array(self._rows)
        first, last = np.interp([first_s, last_s], rows[:, 0], rows[:, column])
        return float(last - first)


@contextmanager
def _followed(source: TelemetrySource) -> Iterator[NodeTrace]:
    """Read a node's counters in a thread until the context ends."""
    trace, stop = NodeTrace(), threading.Event()
    trace.add(time.time(), source.read())

    def follow() -> None:
        while not stop.wait(READ_EVERY_S):
            trace.add(time.time(), source.read())

    with ThreadPoolExecutor(1, "a node's counters") as pool:
        following = pool.submit(follow)
        try:
            yield trace
        finally:
            stop.set()
    following.result()  # raises what reading raised


@contextmanager
def _watched(api: ClusterApi, namespace: str) -> Iterator[dict[tuple[str, str], float]]:
    """Record in a thread when a watch first shows each pod in each phase, seconds since 1970."""
    heard: dict[tuple[str, str], float] = {}
    listed = threading.Event()

    def changed(pod: Json) -> None:
        heard.setdefault((pod["metadata"]["name"], pod["status"].get("phase", "")), time.time())

    with Reflector(api.pods_in(namespace), changed, SystemClock(), random.Random(namespace), listed=listed.set):
        wait_until("the pods can be watched", lambda: "" if listed.is_set() else "no listing yet", _TIMEOUT_S)
        yield heard


def _between(before: Counters, after: Counters) -> Idle:
    """Return a node's CPU time between two readings of its control group."""
    return Idle(float(after.at_s - before.at_s), _used_s(after) - _used_s(before))


def _used_s(counters: Counters) -> float:
    """Return the CPU time that a control group has used; its counters are in microseconds."""
    return float(counters.cpu_total - counters.cpu_idle) / 1e6
