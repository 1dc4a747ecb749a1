"""What agents get to see of the nodes' counters: at once or late, from /proc or through the metrics server."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from carico.telemetry.counters import Counters, Telemetry, telemetry_between
from testbed.simulation.parameters import SAMPLE_PERIOD_S, SimulationParameters


class TelemetrySource:
    """Turns 10 Hz readings of the counters into what reaches the agents.

    The metrics server scrapes periodically and shows mean utilisation since its last scrape; an agent that asks ten
    times a second gets the same answer until the next scrape (thesis §4.2.1). Pressure, which it does not know, is 0.

    Parameters
    ----------
    first : Counters
        The first reading.
    parameters : SimulationParameters
    """

    def __init__(self, first: Counters, parameters: SimulationParameters) -> None:
        self._parameters = parameters
        self._previous = self._scraped = first
        self._shown: Telemetry | None = None
        self._period = round(parameters.metrics_period_s / SAMPLE_PERIOD_S)
        self._readings = 0
        self._on_their_way: deque[Telemetry] = deque()
        self.now: Telemetry
        """The latest telemetry, whether or not agents get to see it."""

    def restart(self, node: int) -> float:
        """Start again for a restarted node, and return the time, seconds, from which on samples show its new life."""
        now_s = float(np.max(self._previous.at_s))
        if self._parameters.telemetry == "procfs":
            return now_s
        columns = {name: np.array(column) for name, column in vars(self._scraped).items() if name != "at_s"}
        for name, column in columns.items():
            column[node] = np.asarray(getattr(self._previous, name))[node]
        self._scraped = replace(self._scraped, **columns)
        scrapes = self._readings // self._period + 1
        return now_s + (scrapes * self._period - self._readings) * SAMPLE_PERIOD_S - SAMPLE_PERIOD_S / 2

    def read(self, counters: Counters) -> list[Telemetry]:
        """Take a reading and return the samples that reach the agents now, the oldest first."""
        self.now = telemetry_between(self._previous, counters)
        self._previous = counters
        self._readings += 1
        sample: Telemetry | None = self.now
        if self._parameters.telemetry == "metrics-server":
            sample = self._from_metrics_server(counters)
        if sample is not None:
            self._on_their_way.append(sample)
        latest = float(np.max(counters.at_s)) - self._parameters.telemetry_delay_s + SAMPLE_PERIOD_S / 2
        arrived = []
        while self._on_their_way and float(np.max(self._on_their_way[0].at_s)) <= latest:
            arrived.append(self._on_their_way.popleft())
        return arrived

    def _from_metrics_server(self, counters: Counters) -> Telemetry | None:
        """What the metrics server shows now; None before its first scrape."""
        if self._readings % self._period == 0:
            mean = telemetry_between(self._scraped, counters)
            self._shown = replace(mean, cpu_pressure=np.zeros_like(mean.cpu_pressure))
            self._scraped = counters
        return None if self._shown is None else replace(self._shown, at_s=counters.at_s)
