"""Servers that clients poll: how long every request takes on a node that is shared with other pods.

A request costs a fixed time (network and protocols), CPU time, and a wake-up of every thread that it passes through in
client and server. These threads see the node's CPUs as the fluid model of `cpu` shares them. A thread that finds an
idle CPU waits until this CPU is awake. A thread that finds none waits for its turn: an exponential time whose mean
grows with the runnable threads per CPU, weighted relative to the server's own weight. A server works on as many
requests at once as it has threads; further requests queue. Clients are on the server's node and send at a steady rate,
however long they wait. There is no network and no cache.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from carico.arrays import FloatArray, IntArray
from testbed.results.schema import RequestSeries
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.nodes.fleet import NodeFleet
from testbed.simulation.parameters import SimulationParameters
from workloads.demand import Service


class Servers:
    """The pods that serve, and the latencies that their clients measured.

    Parameters
    ----------
    fleet : NodeFleet
        Where they run.
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the waiting times.
    """

    def __init__(self, fleet: NodeFleet, parameters: SimulationParameters, rng: np.random.Generator) -> None:
        self._fleet = fleet
        self._parameters = parameters
        self._rng = rng
        self._serving: dict[Pod, int] = {}
        self._sent: dict[Pod, list[float]] = {}
        self._latency: dict[Pod, list[float]] = {}
        self._free: dict[Pod, list[float]] = {}
        """When each of a server's threads is free, a heap."""

    def begin(self, pod: Pod, task: int) -> None:
        """Let the client of `pod`, whose container runs as `task` of the fleet from now on, send its first request."""
        if pod.job.demand.service is not None:
            self._serving[pod] = task
            self._sent[pod], self._latency[pod] = [], []
            self._free[pod] = [-math.inf] * _service(pod).threads

    def end(self, pod: Pod) -> None:
        """Take note that the container of `pod` has ended."""
        self._serving.pop(pod, None)

    def answer(self) -> None:
        """Answer the requests sent since the last call, under the contention of the fleet's last tick."""
        due = {pod: times for pod in self._serving if (times := self._due(pod)).size}
        if not due:
            return
        counts = np.array([times.size for times in due.values()])
        cpu_seconds = np.array([_service(pod).cpu_seconds for pod in due])
        tasks = np.array([self._serving[pod] for pod in due])
        taken = iter(self._draw(np.repeat(tasks, counts), np.repeat(cpu_seconds, counts)).tolist())
        for pod, times in due.items():
            free, sent, latency = self._free[pod], self._sent[pod], self._latency[pod]
            for at in times.tolist():
                # The first thread that is free takes the request that has waited longest.
                begins = max(at, free[0])
                ends = begins + next(taken)
                heapq.heapreplace(free, ends)
                sent.append(at)
                latency.append(ends - at)

    def _due(self, pod: Pod) -> FloatArray:
        """Return the times of the requests sent since the last call, seconds."""
        rate_per_s, began, sent = _service(pod).rate_per_s, pod.started_s, len(self._sent[pod])
        assert began is not None
        until = math.floor((self._fleet.now - began) * rate_per_s + 1e-9) + 1
        times: FloatArray = began + np.arange(sent, max(until, sent)) / rate_per_s
        return times

    def series(self, names: list[str]) -> list[RequestSeries]:
        """Return everything measured, per pod; `names` are the nodes' names."""
        return [
            RequestSeries(
                pod=pod.name,
                job=pod.job.name,
                node="" if pod.node is None else names[pod.node],
                sent_s=[round(at, 6) for at in sent],
                latency_s=[round(seconds, 7) for seconds in self._latency[pod]],
            )
            for pod, sent in self._sent.items()
        ]

    def _draw(self, tasks: IntArray, cpu_seconds: FloatArray) -> FloatArray:
        """Draw how long requests take once a thread works on them, seconds; one for every element of `tasks`."""
        parameters, rng = self._parameters, self._rng
        seen = self._fleet.contention(tasks)
        shape = (tasks.size, parameters.wake_ups_per_request)
        # A thread that is woken looks for an idle CPU, and finds one unless the others keep all of them busy.
        no_idle_cpu = rng.random(shape) < np.clip(seen.runnable - seen.cores + 1.0, 0.0, 1.0)[:, None]
        regularity = parameters.idle_wake_up_cv**-2
        idle = rng.gamma(regularity, parameters.idle_wake_up_s / regularity, shape)
        queued = np.maximum(seen.weighed / seen.cores - 1.0, 0.0)
        busy = rng.exponential(1.0, shape) * (parameters.turn_s * queued)[:, None]
        waits: FloatArray = np.where(no_idle_cpu, busy, idle).sum(axis=1)
        return parameters.request_base_s + cpu_seconds * seen.stretch + waits


def _service(pod: Pod) -> Service:
    service = pod.job.demand.service
    assert service is not None
    return service
