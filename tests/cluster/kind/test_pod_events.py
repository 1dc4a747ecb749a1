"""How much earlier than the API's watch a real node's own sources report pod events (thesis §4.2.4, Fig 4.8)."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from carico.clock import SystemClock
from carico.kube.reflector import Reflector
from carico.podevents.cgroups import CgroupEvents
from carico.podevents.containerd import ContainerdEvents
from carico.podevents.source import PodEventSource
from testbed.real.waiting import wait_until

pytestmark = pytest.mark.cluster

PODS = 6
TIMEOUT_S = 120.0
START, STOP = +1, -1
SOURCES = ("containerd", "control groups")


class Heard:
    """Times at which sources first reported changes, on the monotonic clock; pods run one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_s: dict[tuple[str, int], list[float]] = {}
        self._seen: set[tuple[str, int]] = set()

    def number(self, source: str, change: int) -> int:
        with self._lock:
            return len(self._at_s.get((source, change), ()))

    def last(self, source: str, change: int) -> float:
        with self._lock:
            return self._at_s[source, change][-1]

    def note(self, source: str, change: int) -> None:
        with self._lock:
            self._at_s.setdefault((source, change), []).append(time.monotonic())

    def of_api(self, pod: dict[str, Any]) -> None:
        """Record a pod from the API's watch when it is first Running and when it has Succeeded."""
        phase, name = pod["status"].get("phase"), pod["metadata"]["name"]
        for change, phases in ((START, ("Running", "Succeeded")), (STOP, ("Succeeded",))):
            if phase in phases and (name, change) not in self._seen:
                self._seen.add((name, change))
                self.note("API", change)

    @contextmanager
    def by(self, name: str, source: PodEventSource) -> Iterator[None]:
        source.start(lambda told: self.note(name, told.change))
        try:
            yield
        finally:
            source.close()


@pytest.fixture
def leads(kind_cluster) -> dict[tuple[str, int], list[float]]:
    """By source and change, each pod's lead over the API's watch, seconds."""
    node, api = kind_cluster.workers[0], kind_cluster.api
    pid = kind_cluster.docker.call("inspect", "--format", "{{.State.Pid}}", node).strip()
    root = Path("/proc", pid, "root")
    heard, pods = Heard(), api.pods_in(kind_cluster.namespace)
    found: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as sources:
        sources.enter_context(Reflector(pods, heard.of_api, SystemClock(), random.Random(0)))
        sources.enter_context(heard.by("containerd", ContainerdEvents(str(root / "run/containerd/containerd.sock"))))
        sources.enter_context(heard.by("control groups", CgroupEvents(root / "sys/fs/cgroup")))
        # The platform's pods were reported at the start, and none starts or ends from now on.
        known = {(source, change): heard.number(source, change) for source in SOURCES for change in (START, STOP)}
        for number in range(1, PODS + 1):
            api.create_pod(kind_cluster.namespace, kind_cluster.pi_pod(f"pi-{number}", node, 1000))

            def lacking(number: int = number) -> str:
                reported = {key: heard.number(*key) - before for key, before in known.items()}
                reported |= {("API", change): heard.number("API", change) for change in (START, STOP)}
                return "" if set(reported.values()) == {number} else str(reported)

            wait_until(f"all sources have reported start and end of pod {number}", lacking, TIMEOUT_S, 0.05)
            for source, change in known:
                lead_s = heard.last("API", change) - heard.last(source, change)
                found.setdefault((source, change), []).append(lead_s)
    return found


def test_events_of_the_node_lead_the_api(leads, carico_paper):
    for (source, change), seconds in leads.items():
        what = "start (API: Running)" if change == START else "end (API: Succeeded)"
        note = f"{min(seconds):.3f} to {max(seconds):.3f} s, {len(seconds)} pods"
        carico_paper.row(f"{source}, {what}: median lead over the API", statistics.median(seconds), None, "s", note)
    assert all(len(seconds) == PODS for seconds in leads.values())
    assert {key: statistics.median(seconds) > 0 for key, seconds in leads.items()} == dict.fromkeys(leads, True)
