"""Measures how long a refused pod sleeps: from when a node has room until the pod is bound there.

Only reports show the room. No pod ends, so kube-scheduler sees no event that would wake the pod.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from carico.clock import Clock
from carico.rpc.loop import LoopThread
from testbed.errors import WaitTimedOut
from testbed.real.api import ClusterApi
from testbed.real.kwok.carico import LocalCarico
from testbed.real.kwok.platform import fake_pod_spec
from testbed.real.kwok.synthetic_reports import SyntheticReports
from testbed.real.namespaces import wait_until_empty
from testbed.real.platform import CARICO
from testbed.real.waiting import wait_until
from tests.kits.backlog import Backlog

REPORT_S = 0.1
"""Period of reports, and the largest error of a measured sleep."""
ASLEEP_S = 2.0
"""Time after the refusal until the pod's back-off is over."""
REFUSED_TIMEOUT_S = 60.0
NEVER_WAKE = {"node_interval_s": 86_400.0, "interval_s": 86_400.0}
"""The setting `wake_up` of an extender that wakes pods only once, at the first report of room."""


class RefusedPod:
    """Refused pods, one at a time, on nodes that report room only when a measurement begins.

    Parameters
    ----------
    api : ClusterApi
    namespace : str
        Must have no other pods.
    carico : LocalCarico
        CARICO, none of whose processes has been started.
    nodes : sequence of str
        The nodes that CARICO knows.
    clock : Clock
    """

    def __init__(
        self, api: ClusterApi, namespace: str, carico: LocalCarico, nodes: Sequence[str], clock: Clock
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._carico = carico
        self._clock = clock
        self._numbers = count()
        self._reports = SyntheticReports(
            f"localhost:{carico.report_port}", carico.node_files, dict.fromkeys(nodes, 0.0), clock, time.time
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run extender, kube-scheduler and reports within the context."""
        with LoopThread("reports") as loop:
            loop.start(self._reports.run(REPORT_S))
            self._carico.start("extender")
            self._carico.wait_until_reported()
            self._carico.start("kube-scheduler")
            try:
                yield
            finally:
                self._carico.close()

    def sleep_s(self, node: str, timeout_s: float, other_pod: bool = False) -> float | None:
        """Return how many seconds a refused pod sleeps once a node has room; None if it sleeps longer than `timeout_s`.

        Parameters
        ----------
        node : str
        timeout_s : float
        other_pod : bool, optional
            Whether another pod is created on another node at the same time, without a scheduler.
        """
        backlog = Backlog(self._api, self._namespace, CARICO, self._clock, f"refused-{next(self._numbers)}")
        with backlog.followed():
            backlog.create(1)
            wait_until("the pod is refused", self._not_refused, REFUSED_TIMEOUT_S, REPORT_S)
            self._clock.sleep_until(self._clock.now() + ASLEEP_S)
            room = self._clock.now()
            self._reports.slots[node] = 1.0
            if other_pod:
                wait_until("a node has room", self._no_room, REFUSED_TIMEOUT_S, REPORT_S)
                spec = fake_pod_spec() | {"nodeName": next(one for one in self._reports.slots if one != node)}
                self._api.create_pod(self._namespace, {"metadata": {"name": "other"}, "spec": spec})
            try:
                backlog.wait_until_bound(timeout_s)
            except WaitTimedOut:
                return None
            finally:
                self._reports.slots[node] = 0.0
                self._api.delete_work(self._namespace)
                wait_until_empty(self._api, self._namespace)
                wait_until("no node has room again", self._room, REFUSED_TIMEOUT_S, REPORT_S)
            (bound,) = backlog.bound.values()
            return bound.at_s - room

    def _room(self) -> str:
        known = self._carico.known()
        with_room = ", ".join(node for node, capacity in known.items() if capacity)
        return with_room if known else "the extender does not list its nodes"

    def _no_room(self) -> str:
        return "" if any(self._carico.known().values()) else "none has"

    def _not_refused(self) -> str:
        for pod in self._api.pods_in(self._namespace).list()[0]:
            conditions = pod["status"].get("conditions", [])
            if any(one.get("reason") == "Unschedulable" for one in conditions):
                return ""
        return "it is not yet"
