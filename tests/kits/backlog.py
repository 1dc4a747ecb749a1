"""Pods that wait for a scheduler all at once, and what becomes of them: how fast they are bound, and whether rightly.

They belong to no Job, whose controller would create twenty a second, and run until they are deleted.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from carico.clock import Clock
from carico.kube.reflector import Reflector
from testbed.programs.child_process import Tethered
from testbed.real.api import ClusterApi, Json
from testbed.real.kwok.platform import fake_pod_spec
from testbed.real.waiting import wait_until

_CREATED_AT_ONCE = 4


@dataclass
class Bound:
    """A pod that has a node; times on the clock of who follows."""

    node: str
    at_s: float
    running_s: float | None = None


class Backlog:
    """Pods of one scheduler in a namespace.

    Parameters
    ----------
    api : ClusterApi
    namespace : str
    scheduler_name : str
    clock : Clock
    name : str, optional
        What the pods' names begin with.

    Attributes
    ----------
    bound : dict of str to Bound
        By the pod's name; complete within `followed` only.
    moved : list of str
        Pods that were seen on a second node, which must never be.
    """

    def __init__(self, api: ClusterApi, namespace: str, scheduler_name: str, clock: Clock, name: str = "pod") -> None:
        self._api = api
        self._namespace = namespace
        self._scheduler_name = scheduler_name
        self._clock = clock
        self._name = name
        self._created = 0
        self.bound: dict[str, Bound] = {}
        self.moved: list[str] = []

    def create(self, pods: int) -> None:
        """Create so many more pods."""
        first, self._created = self._created, self._created + pods
        spec = fake_pod_spec() | {"schedulerName": self._scheduler_name}

        def one(number: int) -> None:
            self._api.create_pod(self._namespace, {"metadata": {"name": f"{self._name}-{number}"}, "spec": spec})

        with ThreadPoolExecutor(_CREATED_AT_ONCE) as pool:
            list(pool.map(one, range(first, self._created)))

    def followed(self) -> Reflector:
        """Return what takes in what happens to the pods, within a `with` block."""
        rng = random.Random(self._namespace)
        return Reflector(self._api.pods_in(self._namespace), self._changed, self._clock, rng)

    def wait_until_bound(self, timeout_s: float, pods: int | None = None) -> None:
        """Return when so many pods are bound, all by default; see `wait_until`."""
        wanted = self._created if pods is None else pods

        def lacking() -> str:
            return "" if len(self.bound) >= wanted else f"{len(self.bound)} are"

        wait_until(f"{wanted} pods of {self._namespace} are bound", lacking, timeout_s)

    @property
    def pods_per_s(self) -> float:
        """How many were bound a second, from the first to the last."""
        times = [pod.at_s for pod in self.bound.values()]
        return (len(times) - 1) / (max(times) - min(times))

    def bindings(self) -> Counter[str]:
        """Count the bindings that schedulers have told of, by pod: Events, which are not written in time always."""
        bindings: Counter[str] = Counter()
        for event in self._api.events(self._namespace):
            if event["reason"] == "Scheduled":
                # A scheduler's second one for a pod is counted in its first: as a series, by older recorders as count.
                told = (event.get("series") or {}).get("count") or event.get("count") or 1
                bindings[event["involvedObject"]["name"]] += told
        return bindings

    def above(self, slots: Mapping[str, float], unreported_s: float) -> dict[str, int]:
        """Return the nodes that were given more pods than reservations allow, and by how many.

        A pod's reservation ends when it runs, and the node's next report has it: as many pods as began to run on a
        node since its last report may be above its slots, and no more.

        Parameters
        ----------
        slots : mapping of str to float
            Pods that a node has room for, by node.
        unreported_s : float
            How old a report may be that is believed, and what watches are late by.
        """
        by_node: dict[str, list[Bound]] = defaultdict(list)
        for pod in sorted(self.bound.values(), key=lambda pod: pod.at_s):
            by_node[pod.node].append(pod)
        found: Counter[str] = Counter()
        for node, pods in by_node.items():
            for count, pod in enumerate(pods, start=1):
                begun = sum(
                    one.running_s is not None and pod.at_s - unreported_s <= one.running_s <= pod.at_s for one in pods
                )
                found[node] = max(found[node], count - int(slots[node]) - begun)
        return {node: above for node, above in found.items() if above > 0}

    def _changed(self, pod: Json) -> None:
        name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName")
        if not node or not name.startswith(f"{self._name}-"):
            return
        now = self._clock.now()
        known = self.bound.setdefault(name, Bound(node, now))
        if known.node != node:
            self.moved.append(name)
        if known.running_s is None and (pod.get("status") or {}).get("phase") == "Running":
            known.running_s = now


@contextmanager
def scheduling(start: Callable[[], Tethered]) -> Iterator[None]:
    """Start a scheduler, and end it."""
    scheduler = start()
    try:
        yield
    finally:
        scheduler.end()


def schedule(backlog: Backlog, pods: int, start: Callable[[], Tethered], timeout_s: float) -> None:
    """Create pods, and only then start their scheduler; it is ended when all are bound.

    Raises
    ------
    WaitTimedOut
        If they are not in time.
    """
    backlog.create(pods)
    with backlog.followed(), scheduling(start):
        backlog.wait_until_bound(timeout_s)
