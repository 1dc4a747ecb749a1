"""A backlog: many pods that wait for a scheduler at the same time. Measures how fast and how correctly they are bound.

The pods belong to no Job, because its controller would create only twenty a second; they run until they are deleted.
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
from testbed.programs.child_process import ChildProcess
from testbed.real.api import ClusterApi, Json
from testbed.real.kwok.platform import fake_pod_spec
from testbed.real.waiting import wait_until

_CREATED_AT_ONCE = 4


@dataclass
class Bound:
    """A bound pod; times are those of the backlog's clock."""

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
        Prefix of the pods' names.
    template : dict, optional
        The pods' metadata and spec; by default they are only objects.

    Attributes
    ----------
    bound : dict of str to Bound
        Bound pods by name; updated only within `followed`.
    moved : list of str
        Pods that were seen on a second node, which must never happen.
    """

    def __init__(
        self,
        api: ClusterApi,
        namespace: str,
        scheduler_name: str,
        clock: Clock,
        name: str = "pod",
        template: Json | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._scheduler_name = scheduler_name
        self._clock = clock
        self._name = name
        self._template = {"metadata": {}, "spec": fake_pod_spec()} if template is None else template
        self._created = 0
        self.bound: dict[str, Bound] = {}
        self.moved: list[str] = []

    def create(self, pods: int) -> None:
        """Create further pods."""
        first, self._created = self._created, self._created + pods
        spec = self._template["spec"] | {"schedulerName": self._scheduler_name}

        def one(number: int) -> None:
            metadata = self._template["metadata"] | {"name": f"{self._name}-{number}"}
            self._api.create_pod(self._namespace, {"metadata": metadata, "spec": spec})

        with ThreadPoolExecutor(_CREATED_AT_ONCE) as pool:
            list(pool.map(one, range(first, self._created)))

    def followed(self) -> Reflector:
        """Return a context manager that keeps `bound` and `moved` up to date."""
        rng = random.Random(self._namespace)
        return Reflector(self._api.pods_in(self._namespace), self._changed, self._clock, rng)

    def wait_until_bound(self, timeout_s: float, pods: int | None = None) -> None:
        """Wait until a number of pods are bound, all by default; see `wait_until`."""
        wanted = self._created if pods is None else pods

        def lacking() -> str:
            return "" if len(self.bound) >= wanted else f"only {len(self.bound)} are"

        wait_until(f"{wanted} pods of {self._namespace} are bound", lacking, timeout_s)

    @property
    def pods_per_s(self) -> float:
        """Pods bound per second, from the first binding to the last."""
        times = [pod.at_s for pod in self.bound.values()]
        return (len(times) - 1) / (max(times) - min(times))

    def bindings(self) -> Counter[str]:
        """Count each pod's bindings, from the schedulers' Events, which may come late."""
        bindings: Counter[str] = Counter()
        for event in self._api.events(self._namespace):
            if event["reason"] == "Scheduled":
                # A scheduler counts a pod's second Event in its first one: in `series`, or `count` of older recorders.
                times = (event.get("series") or {}).get("count") or event.get("count") or 1
                bindings[event["involvedObject"]["name"]] += times
        return bindings

    def above(self, slots: Mapping[str, float], unreported_s: float) -> dict[str, int]:
        """Return the number of pods by which each node exceeds the limit of reservations, for nodes that do.

        A pod's reservation ends when the pod runs, but reports count the pod only from the node's next one on. So a
        node may exceed its slots by the pods that have started there since its last report.

        Parameters
        ----------
        slots : mapping of str to float
            How many pods fit on each node.
        unreported_s : float
            How long a running pod may be missing from reports: the age at which reports expire plus the watches' delay.
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
def scheduling(start: Callable[[], ChildProcess]) -> Iterator[None]:
    """Run a scheduler within the context."""
    scheduler = start()
    try:
        yield
    finally:
        scheduler.end()


def schedule(backlog: Backlog, pods: int, start: Callable[[], ChildProcess], timeout_s: float) -> None:
    """Create pods, then run their scheduler until all are bound.

    Raises
    ------
    WaitTimedOut
        If they are not bound in time.
    """
    backlog.create(pods)
    with backlog.followed(), scheduling(start):
        backlog.wait_until_bound(timeout_s)
