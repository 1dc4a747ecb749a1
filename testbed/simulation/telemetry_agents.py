"""What reports the nodes' telemetry to a scheduler of one's own: once a second, with CARICO's delays and losses.

Nothing is learned here; a scheduler that is no CARICO gets what any metrics agent would send.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from carico.arrays import BoolArray, FloatArray
from carico.model.variants import SAMPLES_PER_S
from carico.telemetry.counters import Counters, Telemetry
from testbed.results.schema import USAGE
from testbed.schedulers.interface import NodeTelemetry
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.telemetry import SimulatedTelemetry


class TelemetryAgents:
    """One agent for every node.

    Parameters
    ----------
    nodes : int
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the phases of the agents, and for lost samples and reports.
    first : Counters
        The first reading.
    on_report : callable
        Called with a node and its telemetry, or None after a restart.
    """

    latest = None
    latest_costs = None

    def __init__(
        self,
        nodes: int,
        parameters: SimulationParameters,
        *,
        rng: np.random.Generator,
        first: Counters,
        on_report: Callable[[int, NodeTelemetry | None], None],
    ) -> None:
        self._parameters = parameters
        self._rng = rng
        self._on_report = on_report
        self._source = SimulatedTelemetry(first, parameters, rng)
        self._phase = rng.integers(0, SAMPLES_PER_S, nodes)
        self._ticks = 0
        self._up: BoolArray = np.ones(nodes, dtype=np.bool_)
        self._since: FloatArray = np.full(nodes, -np.inf)
        """The time from which each node's samples count."""
        self._sums: FloatArray = np.zeros((len(USAGE), nodes))
        self._samples: FloatArray = np.zeros(nodes)
        self._at_s: FloatArray = np.zeros(nodes)

    def sample(self, counters: Counters) -> Telemetry:
        """Process a 10 Hz reading; see `Agents.sample`."""
        parameters = self._parameters
        for telemetry, shown in self._source.read(counters):
            at_s = float(np.max(telemetry.at_s))
            received = shown & self._up & (at_s > self._since)
            lost = parameters.sample_loss + parameters.sample_late
            if lost:
                received &= self._rng.random(received.size) >= lost
            self._sums += np.where(received, [getattr(telemetry, name) for name in USAGE], 0.0)
            self._samples += received
            self._at_s[received] = at_s
        due = np.flatnonzero((self._phase == self._ticks % SAMPLES_PER_S) & (self._samples > 0))
        self._ticks += 1
        arrives = self._rng.random(due.size) >= parameters.report_loss if parameters.report_loss else due >= 0
        for node in due[arrives].tolist():
            means = (self._sums[:, node] / self._samples[node]).tolist()
            self._on_report(node, NodeTelemetry(at_s=float(self._at_s[node]), **dict(zip(USAGE, means, strict=True))))
        self._sums[:, due] = self._samples[due] = 0.0
        return self._source.now

    def pod_event(self, node: int, uid: str, workload: str | None, change: int, at: float) -> None:
        """Do nothing: these agents count no pods."""

    def pod_found(self, node: int, uid: str, workload: str | None, at: float) -> None:
        """Do nothing: these agents count no pods."""

    def start(self, node: int) -> None:
        """Start a new agent; see `Agents.start`."""
        self._since[node] = self._source.restart(node)
        self._sums[:, node] = self._samples[node] = 0.0
        self._up[node] = True
        self._on_report(node, None)

    def stop(self, node: int) -> None:
        """End the agent of a node; see `Agents.stop`."""
        self._up[node] = False
