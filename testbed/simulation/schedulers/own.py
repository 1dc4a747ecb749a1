"""A scheduler of one's own inside the emulated framework: the user's `filter` and `score` decide.

kube-scheduler's filters apply hard constraints first. The user's code sees views of pods and nodes, and nothing of the
simulation; an error in it ends the run with a message that names the place.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from testbed.errors import OwnCodeFailed
from testbed.schedulers.interface import ClusterView, Node, NodeTelemetry, Scheduler
from testbed.schedulers.interface import Pod as PodView
from testbed.schedulers.spec import OwnSpec
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.schedulers.resources_fit import ResourcesFit
from testbed.simulation.schedulers.under_test import Site, UnderTest
from testbed.simulation.telemetry_agents import TelemetryAgents

Answer = TypeVar("Answer")


def put_own(site: Site, spec: OwnSpec) -> UnderTest:
    """Return a scheduler of one's own, with what reports the nodes' telemetry to it."""
    plugin = OwnScheduler(site, spec)
    agents = TelemetryAgents(
        len(site.names),
        site.parameters,
        rng=site.agents_rng,
        first=site.first,
        on_report=site.delayed(plugin.report),
    )
    return UnderTest(plugin, site.parameters, agents)


class OwnScheduler:
    """A `SchedulingPlugin` that asks the user's class.

    Parameters
    ----------
    site : Site
    spec : OwnSpec

    Raises
    ------
    OwnCodeFailed
        From every method, if the user's code raises an exception or returns what is no answer.
    """

    is_extender = False

    def __init__(self, site: Site, spec: OwnSpec) -> None:
        self._fit = ResourcesFit(site.shape, site.parameters)
        self._rng = site.scheduler_rng
        self._text = spec.text
        self._kind = spec.kind
        self._nodes = [
            Node(
                name=name,
                cores=pool.cores,
                memory_bytes=pool.memory_bytes,
                max_pods=pool.max_pods,
                free_millicpu=0,
                free_memory_bytes=0,
            )
            for name, pool in zip(site.names, site.shape.each_node, strict=True)
        ]
        self._index = {name: index for index, name in enumerate(site.names)}
        self._views: dict[str, PodView] = {}
        self._reserved: dict[str, int] = {}
        for node in range(len(self._nodes)):
            self._count(node)
        self._scheduler: Scheduler = self._asked("a new scheduler", spec.make)
        view = ClusterView(
            nodes=tuple(self._nodes),
            now=lambda: float(site.env.now),
            rng=site.scheduler_rng,
            retry=lambda node: site.wake(self._index[node.name]),
        )
        self._asked("start", lambda: self._scheduler.start(view))

    def report(self, node: int, telemetry: NodeTelemetry | None) -> None:
        """Take in a node's telemetry; None if the node has restarted."""
        self._nodes[node].telemetry = telemetry
        if telemetry is not None:
            self._asked(f"observe({self._nodes[node].name})", lambda: self._scheduler.observe(self._nodes[node]))

    def pod_created(self, pod: Pod) -> None:
        """Do nothing; see `SchedulingPlugin.pod_created`."""

    def select(self, pod: Pod) -> int | None:
        """Filter, score and pick one of the best nodes; see `SchedulingPlugin.select`."""
        view = self._view(pod)
        candidates = [node for node in np.flatnonzero(self._fit.fits(pod)).tolist() if self._passes(view, node)]
        if not candidates:
            return None
        scores = [self._score(view, node) for node in candidates]
        highest = max(scores)
        best = [node for node, score in zip(candidates, scores, strict=True) if score == highest]
        return best[int(self._rng.integers(len(best)))] if len(best) > 1 else best[0]

    def held(self, pod: Pod) -> None:
        """Return None: a pod without a node is refused at once."""

    def reserve(self, pod: Pod, node: int) -> None:
        """Count the pod against the node."""
        view, there = self._view(pod), self._nodes[node]
        self._fit.add(pod, node)
        self._reserved[pod.uid] = node
        there.pods.append(view)
        self._count(node)
        self._asked(_call("reserve", view, there), lambda: self._scheduler.reserve(view, there))

    def pod_bound(self, pod: Pod) -> None:
        """Do nothing: the pod has been counted since `reserve`."""

    def pod_running(self, pod: Pod) -> None:
        """Show the pod as running."""
        self._view(pod).running = True

    def pod_finished(self, pod: Pod) -> None:
        """Count the pod no longer."""
        view = self._views.pop(pod.uid, None)
        node = self._reserved.pop(pod.uid, None)
        if node is None or view is None:
            return
        there = self._nodes[node]
        self._fit.add(pod, node, -1)
        there.pods.remove(view)
        self._count(node)
        self._asked(_call("unreserve", view, there), lambda: self._scheduler.unreserve(view, there))

    def node_ready(self, node: int, ready: bool) -> None:
        """Let a node take pods, or none."""
        self._fit.ready[node] = ready

    def _passes(self, pod: PodView, node: int) -> bool:
        there = self._nodes[node]
        return bool(self._asked(_call("filter", pod, there), lambda: self._scheduler.filter(pod, there)))

    def _score(self, pod: PodView, node: int) -> float:
        there = self._nodes[node]
        call = _call("score", pod, there)
        answer = self._asked(call, lambda: self._scheduler.score(pod, there))
        try:
            score = float(answer)
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if not math.isfinite(score):
            raise OwnCodeFailed(
                f"{self._text}: {call} returned {answer!r}: a finite number is needed ({self._definition(call)})"
            )
        return score

    def _view(self, pod: Pod) -> PodView:
        if pod.uid not in self._views:
            self._views[pod.uid] = PodView(
                name=pod.name,
                job=pod.job.name,
                workload=pod.job.workload,
                millicpu=pod.millicpu,
                memory_bytes=pod.memory_bytes,
                priority=pod.job.priority,
                latency_critical=pod.job.latency_critical,
                created_s=pod.created_s,
            )
        return self._views[pod.uid]

    def _count(self, node: int) -> None:
        free = self._fit.allocatable[node] - self._fit.requested[node]
        self._nodes[node].free_millicpu, self._nodes[node].free_memory_bytes = free.tolist()

    def _asked(self, call: str, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except Exception as error:
            theirs = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
            place = f"{theirs[-1].filename}, line {theirs[-1].lineno}" if theirs else self._definition(call)
            raise OwnCodeFailed(f"{self._text}: {call} raised {type(error).__name__}: {error} ({place})") from error

    def _definition(self, call: str) -> str:
        """Return where the called method is defined, for errors that its caller sees first."""
        method = inspect.unwrap(getattr(self._kind, call.partition("(")[0], self._kind.__init__))
        code = getattr(method, "__code__", None)
        return self._kind.__qualname__ if code is None else f"{code.co_filename}, line {code.co_firstlineno}"


def _call(method: str, pod: PodView, node: Node) -> str:
    return f"{method}({pod.name}, {node.name})"
