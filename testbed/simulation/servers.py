"""Servers that clients poll: how long every request takes on a node that is shared with other pods.

A request costs a fixed time (network and protocols), CPU time, and the wake-ups of the threads that it passes through,
of client and server: these see the node's CPUs as the fluid model of `cpu` shares them. A thread that finds an idle CPU
waits until that is awake, one that finds none until those before it have had their turn: an exponential time whose
mean grows with the runnable threads per CPU, weighed against the server's own weight. Client and server are on one
node. No network, no caches.
"""

from __future__ import annotations

import math

import numpy as np

from carico.arrays import FloatArray
from testbed.results.schema import RequestSeries
from testbed.simulation.api import Pod
from testbed.simulation.fleet import NodeFleet
from testbed.simulation.parameters import SimulationParameters


class Servers:
    """The pods that serve, and what their clients measured.

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

    def begin(self, pod: Pod, task: int) -> None:
        """The container of `pod` runs as `task` of the fleet from now on; its client sends its first request."""
        if pod.job.demand.service is not None:
            self._serving[pod] = task
            self._sent[pod], self._latency[pod] = [], []

    def end(self, pod: Pod) -> None:
        """The container is gone."""
        self._serving.pop(pod, None)

    def answer(self) -> None:
        """Answer what was sent since the last call, under the contention of the fleet's last tick."""
        for pod, task in self._serving.items():
            service, sent = pod.job.demand.service, self._sent[pod]
            assert service is not None
            assert pod.started_s is not None
            due = math.floor((self._fleet.now - pod.started_s) * service.rate_per_s + 1e-9) + 1
            if due > len(sent):
                times = pod.started_s + np.arange(len(sent), due) / service.rate_per_s
                self._latency[pod] += self._draw(task, service.cpu_seconds, times.size).tolist()
                sent += times.tolist()

    def series(self, names: list[str]) -> list[RequestSeries]:
        """Everything measured, per pod; `names` are the nodes'."""
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

    def _draw(self, task: int, cpu_seconds: float, count: int) -> FloatArray:
        """Latencies of `count` requests, seconds."""
        parameters, rng = self._parameters, self._rng
        seen = self._fleet.contention(task)
        shape = (count, parameters.wake_ups_per_request)
        # A thread that is woken looks for an idle CPU, and finds one unless the others keep all of them busy.
        no_idle_cpu = rng.random(shape) < np.clip(seen.runnable - seen.cores + 1.0, 0.0, 1.0)
        regularity = parameters.idle_wake_up_cv**-2
        idle = rng.gamma(regularity, parameters.idle_wake_up_s / regularity, shape)
        busy = rng.exponential(parameters.turn_s * seen.weighed / seen.cores, shape)
        waits: FloatArray = np.where(no_idle_cpu, busy, idle).sum(axis=1)
        return parameters.request_base_s + cpu_seconds * seen.stretch + waits
