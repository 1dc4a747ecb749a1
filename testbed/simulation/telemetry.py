"""What agents see of the nodes' counters: at once or late, from /proc or through the metrics server."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from carico.arrays import BoolArray, IntArray
from carico.telemetry.counters import Counters, Telemetry, telemetry_between
from testbed.simulation.parameters import SAMPLE_PERIOD_S, SimulationParameters


class Arrival(NamedTuple):
    """A sample that reaches agents."""

    telemetry: Telemetry
    """The telemetry of every node."""
    received: BoolArray
    """Whether each node's agent receives it, (nodes,)."""


class SimulatedTelemetry:
    """Turns 10 Hz readings of the counters into what reaches the agents.

    The metrics server scrapes all nodes at once and shows the mean utilisation since the previous scrape (thesis
    §4.2.1). Every agent asks it with the same period, at a phase of its own, uses every answer once, and dates it by
    its arrival, as `carico.telemetry.metrics_server` does. Pressure, which the metrics server does not have, is 0.

    Parameters
    ----------
    first : Counters
        The first reading.
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the phases at which agents ask.
    """

    def __init__(self, first: Counters, parameters: SimulationParameters, rng: np.random.Generator) -> None:
        self._parameters = parameters
        self._previous = self._scraped = first
        self._shown: Telemetry | None = None
        self._everyone: BoolArray = np.ones(np.size(first.cpu_total), dtype=np.bool_)
        self._period = round(parameters.metrics_period_s / SAMPLE_PERIOD_S)
        self._readings = 0
        self._scrapes = 0
        self._last_answer: IntArray = np.zeros(self._everyone.size, dtype=np.int64)
        """The number of the scrape that each agent was last shown."""
        self._phase: IntArray = self._last_answer
        if parameters.telemetry == "metrics-server":
            self._phase = rng.integers(0, self._period, self._everyone.size)
        self._on_their_way: deque[Arrival] = deque()
        self.now: Telemetry
        """The latest telemetry, whether or not agents see it."""

    def restart(self, node: int) -> float:
        """Start afresh for a restarted node, and return the time, seconds, from which its samples count."""
        if self._parameters.telemetry == "metrics-server":
            of_nodes = {name: column for name, column in vars(self._scraped).items() if np.ndim(column)}
            columns = {name: np.array(column) for name, column in of_nodes.items()}
            for name, column in columns.items():
                column[node] = np.asarray(getattr(self._previous, name))[node]
            self._scraped = replace(self._scraped, **columns)
            # The new agent asks at once; its first answer is from before the restart, and only later ones are new.
            self._phase[node] = self._readings % self._period
            self._last_answer[node] = self._scrapes
        return float(np.max(self._previous.at_s))

    def read(self, counters: Counters) -> list[Arrival]:
        """Take a reading and return the samples that reach agents now, the oldest first."""
        self.now = telemetry_between(self._previous, counters)
        self._previous = counters
        self._readings += 1
        sample: Arrival | None = Arrival(self.now, self._everyone)
        if self._parameters.telemetry == "metrics-server":
            sample = self._from_metrics_server(counters)
        if sample is not None:
            self._on_their_way.append(sample)
        latest = float(np.max(counters.at_s)) - self._parameters.telemetry_delay_s + SAMPLE_PERIOD_S / 2
        arrived = []
        while self._on_their_way and float(np.max(self._on_their_way[0].telemetry.at_s)) <= latest:
            arrived.append(self._on_their_way.popleft())
        return arrived

    def _from_metrics_server(self, counters: Counters) -> Arrival | None:
        """Return what the agents that ask now have not seen yet; None if there is nothing new."""
        if self._readings % self._period == 0:
            mean = telemetry_between(self._scraped, counters)
            self._shown = replace(mean, cpu_pressure=np.zeros_like(mean.cpu_pressure))
            self._scraped = counters
            self._scrapes += 1
        asking = self._phase == self._readings % self._period
        new: BoolArray = asking & (self._last_answer < self._scrapes)
        self._last_answer[asking] = self._scrapes
        if self._shown is None or not new.any():
            return None
        return Arrival(replace(self._shown, at_s=counters.at_s), new)
