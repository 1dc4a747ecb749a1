"""CARICO's agents on the nodes of the simulated cluster: they connect the kernel's counters with the NodeModel.

Every agent samples its node's counters at 10 Hz, steps its model once a second at a phase of its own, exchanges its
subspace with the aggregator when the model says so, and reports. The classes are the production ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.model.aggregator import Aggregator
from carico.model.capacity import MAX_PODS
from carico.model.node_model import RESOURCES, NodeModel
from carico.model.report import Report
from carico.model.subspace import Subspace
from carico.model.variants import Variant, on_metrics_server
from carico.telemetry.counters import Counters, Telemetry, usage_vector
from testbed.results.schema import REPORTED
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.telemetry import SimulatedTelemetry

OnReport = Callable[[int, float, frozenset[str] | None], None]
"""Called with a node, the Pod-Capacity that it reports, and the pods that it counts, if the variant needs to know."""


class AgentFleet:
    """The agents of all nodes and their aggregator.

    Parameters
    ----------
    names : sequence of str
        The nodes.
    variant : Variant
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the phases of the agents and for lost and late samples.
    first : Counters
        The first reading.
    on_report : callable, optional
        Called with every report.
    max_pods : array_like of int, optional
        The most pods that each node takes.
    """

    latest_costs = None
    """These agents learn what a pod takes, not what those of each workload take."""

    def __init__(
        self,
        names: list[str],
        variant: Variant,
        parameters: SimulationParameters,
        *,
        rng: np.random.Generator,
        first: Counters,
        on_report: OnReport | None = None,
        max_pods: ArrayLike = MAX_PODS,
    ) -> None:
        self._names = names
        self._parameters = parameters
        self._rng = rng
        self._on_report = on_report
        count = len(names)
        if parameters.telemetry == "metrics-server":
            variant = on_metrics_server(variant, parameters.metrics_period_s)
        self._variant = variant
        self._model = NodeModel(variant, nodes=count, max_pods=max_pods)
        self._aggregator = Aggregator(len(RESOURCES), variant.rank, variant.batch_size)
        phases = rng.integers(0, variant.batch_size, count)
        self._stepping: list[IntArray] = [np.flatnonzero(phases == phase) for phase in range(variant.batch_size)]
        self._up: BoolArray = np.ones(count, dtype=np.bool_)
        self._since: FloatArray = np.full(count, -np.inf)
        """The time from which each node's samples count; earlier samples are from before a restart."""
        self._counted: list[set[str]] = [set() for _ in names]
        """The pods that each agent counts."""
        self._ticks = 0
        self._source = SimulatedTelemetry(first, parameters, rng)
        self._late: tuple[FloatArray, float, BoolArray] | None = None
        self.latest: dict[str, FloatArray] = {name: np.full(count, np.nan) for name in REPORTED}
        """What every node last reported."""

    def pod_event(self, node: int, uid: str, workload: str | None, change: int, at: float) -> None:
        """Note that a pod's container was created (+1) or has ended (-1) on a node; ignored if no agent runs there.

        The platform's pods, which have no workload, are not counted.
        """
        if not self._up[node] or workload is None:
            return
        self._model.pod_event(change, at, node=node)
        (self._counted[node].add if change > 0 else self._counted[node].discard)(uid)

    def pod_found(self, node: int, uid: str, workload: str | None, at: float) -> None:
        """Note that a pod runs that was there before the node's agent."""
        self.pod_event(node, uid, workload, +1, at)

    def start(self, node: int) -> None:
        """Start a new agent, which has learned nothing yet, on a node that has come up."""
        self._model.reset([node])
        self._counted[node].clear()
        self._since[node] = self._source.restart(node)
        self._up[node] = True

    def stop(self, node: int) -> None:
        """End the agent of a node that has gone down."""
        self._up[node] = False
        for latest in self.latest.values():
            latest[node] = np.nan

    def sample(self, counters: Counters) -> Telemetry:
        """Process a 10 Hz reading of all nodes; agents whose turn it is step and report."""
        at = float(np.max(counters.at_s))
        for telemetry, shown in self._source.read(counters):
            self._observe(usage_vector(telemetry, self._variant.cpu_metric), float(np.max(telemetry.at_s)), shown)
        stepping = self._stepping[self._ticks % len(self._stepping)]
        stepping = stepping[self._up[stepping]]
        self._ticks += 1
        if stepping.size:
            self._handle(stepping, self._model.step(at, nodes=stepping))
        return self._source.now

    def _observe(self, usage: FloatArray, at: float, shown: BoolArray) -> None:
        parameters, count = self._parameters, len(self._names)
        received = shown & self._up & (at > self._since)
        if parameters.sample_loss:
            received &= self._rng.random(count) >= parameters.sample_loss
        overdue, self._late = self._late, None
        if parameters.sample_late:
            late = received & (self._rng.random(count) < parameters.sample_late)
            received &= ~late
            self._late = (usage, at, late)
        self._model.observe(usage, at, received)
        if overdue is not None:
            self._model.observe(*overdue[:2], overdue[2] & self._up & (overdue[1] > self._since))

    def _handle(self, stepping: IntArray, report: Report) -> None:
        for name, latest in self.latest.items():
            latest[stepping] = getattr(report, name)
        due = np.flatnonzero(report.exchange_due)
        for i in due.tolist():
            node = int(stepping[i])
            own = Subspace(report.subspace.basis[i], report.subspace.singular_values[i])
            self._model.adopt(self._aggregator.exchange(self._names[node], own), [node])
        if due.size:
            self._model.exchanged(report.at_s, stepping[due])
            self._aggregator.merge(self._aggregator.take_waiting())
        if self._on_report is not None:
            loss = self._parameters.report_loss
            arrives = self._rng.random(stepping.size) >= loss if loss else np.ones(stepping.size, dtype=np.bool_)
            for node, capacity in zip(stepping[arrives].tolist(), report.pod_capacity[arrives].tolist(), strict=True):
                counted = frozenset(self._counted[node]) if self._variant.until_counted else None
                self._on_report(node, capacity, counted)
