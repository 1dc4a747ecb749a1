"""Agents of the variant `demand` on the nodes of the simulated cluster: counters and pod events in, reports out.

Every agent reads its node's counters at 10 Hz, because no counter sums up memory over time. It learns `steps_per_s`
times a second, at a phase of its own, and reports once a second, when a pod starts or stops, and when its demand has
changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields

import numpy as np

from carico.arrays import BoolArray, FloatArray
from carico.demand.node import NodeDemand
from carico.demand.report import DemandReport
from carico.demand.settings import DemandVariant
from carico.telemetry.counters import Counters, PodCounters, Telemetry, cpu_left, disk_use_between, telemetry_between
from testbed.results.schema import REPORTED
from testbed.simulation.parameters import SAMPLE_PERIOD_S, SimulationParameters
from testbed.simulation.recorder import Costs

OnDemandReport = Callable[[int, DemandReport], None]
"""Called with a node and its report."""

REPORT_PERIOD_S = 1.0
GIB = 2.0**30


class DemandAgents:
    """The agents of all nodes.

    Parameters
    ----------
    names : list of str
        The nodes.
    cores, memory_bytes : array, (nodes,)
        Their sizes.
    variant : DemandVariant
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the phases of the agents, and for lost samples and reports.
    first : Counters
        The first reading.
    read_pods : callable
        Returns the counters of those of the pods with these UIDs that run.
    on_report : callable
        Called with every report that arrives.
    """

    def __init__(
        self,
        names: list[str],
        cores: FloatArray,
        memory_bytes: FloatArray,
        variant: DemandVariant,
        parameters: SimulationParameters,
        rng: np.random.Generator,
        first: Counters,
        read_pods: Callable[[Collection[str]], Mapping[str, PodCounters]],
        on_report: OnDemandReport,
    ) -> None:
        self._names = names
        self._cores, self._gib = cores, memory_bytes / GIB
        self._variant = variant
        self._parameters = parameters
        self._rng = rng
        self._read_pods = read_pods
        self._on_report = on_report
        self._every = max(round(1 / (variant.steps_per_s * SAMPLE_PERIOD_S)), 1)
        self._phase = rng.integers(0, self._every, len(names))
        self._ticks = 0
        self._reading = first
        self._delayed: deque[FloatArray] = deque()
        self._before = _columns(first, len(names))
        """The reading at which each agent's interval began, (fields, nodes)."""
        self._memory: FloatArray = np.zeros(len(names))
        self._samples: FloatArray = np.zeros(len(names))
        """Sum and number of the memory samples of each interval."""
        self._up: BoolArray = np.ones(len(names), dtype=np.bool_)
        self._models = [self._new_model(node, float(np.max(first.at_s))) for node in range(len(names))]
        self._reported: FloatArray = np.full((3, len(names)), -np.inf)
        """When each node last reported, and the cores and GiB that it reported."""
        self.latest: dict[str, FloatArray] = {name: np.full(len(names), np.nan) for name in REPORTED}
        """What agents of the thesis's variants report; these agents report none of it."""
        self.latest_costs: list[Costs] = [{} for _ in names]
        """What each node last reported of workloads; nothing while it is down."""

    def pod_event(self, node: int, uid: str, workload: str | None, change: int, at: float) -> None:
        """Note that a pod has started (+1) or stopped (-1) on a node; ignored if no agent runs there."""
        if not self._up[node]:
            return
        if change > 0:
            self._models[node].pod_started(uid, workload, at)
        else:
            self._models[node].pod_stopped(uid, at)
        self._report(node, at)

    def pod_found(self, node: int, uid: str, workload: str | None, at: float) -> None:
        """Note that a pod runs that was there before the node's agent."""
        self._models[node].pod_found(uid, workload)
        self._report(node, at)

    def start(self, node: int) -> None:
        """Start a new agent, which has learned nothing yet, on a node that has come up."""
        self._before[:, node] = _columns(self._reading, len(self._names))[:, node]
        self._memory[node] = self._samples[node] = 0.0
        self._models[node] = self._new_model(node, float(np.max(self._reading.at_s)))
        self._up[node] = True

    def stop(self, node: int) -> None:
        """End the agent of a node that has gone down."""
        self._up[node] = False
        self.latest_costs[node] = {}

    def sample(self, counters: Counters) -> Telemetry:
        """Process a 10 Hz reading of all nodes; agents whose turn it is learn, and report if they have to."""
        seen = telemetry_between(self._reading, counters)
        self._reading = counters
        self._delayed.append(_columns(counters, len(self._names)))
        if len(self._delayed) > round(self._parameters.telemetry_delay_s / SAMPLE_PERIOD_S):
            self._take(self._delayed.popleft(), float(np.max(counters.at_s)))
        return seen

    def _take(self, reading: FloatArray, now: float) -> None:
        self._memory += 1 - reading[_AVAILABLE].sum(axis=0) / reading[_TOTAL]
        self._samples += 1
        self._ticks += 1
        due = self._up & (self._phase == self._ticks % self._every) & (reading[_AT] > self._before[_AT])
        lost = self._parameters.sample_loss + self._parameters.sample_late
        if lost:
            due &= self._rng.random(due.size) >= lost
        nodes = np.flatnonzero(due)
        if not nodes.size:
            return
        telemetry = telemetry_between(Counters(*self._before[:, nodes]), Counters(*reading[:, nodes]))
        demand = self._cores[nodes] * (np.asarray(telemetry.cpu_utilisation) + np.asarray(telemetry.cpu_pressure))
        pairs = zip(self._before[:, nodes].T.tolist(), reading[:, nodes].T.tolist(), strict=True)
        disks = [disk_use_between(Counters(*before), Counters(*after)) for before, after in pairs]
        held = self._gib[nodes] * self._memory[nodes] / self._samples[nodes]
        self._before[:, nodes] = reading[:, nodes]
        self._memory[nodes] = self._samples[nodes] = 0.0
        ended, left = reading[_AT, nodes], np.asarray(cpu_left(telemetry))
        columns = (each.tolist() for each in (nodes, demand, held, ended, left))
        for node, cores, gib, until, share, disk in zip(*columns, disks, strict=True):
            model = self._models[node]
            if uids := model.pods_to_read(now):
                model.observe_pods(self._read_pods(uids), now)
            model.observe(cores, gib, until, disk, share)
            at, cores_told, gib_told = self._reported[:, node]
            change = max(abs(model.demand().mean - cores_told), abs(gib - gib_told))
            overdue = now - at > REPORT_PERIOD_S - SAMPLE_PERIOD_S / 2
            if overdue or change >= self._variant.report_change:
                self._report(node, now)

    def _report(self, node: int, now: float) -> None:
        report = self._models[node].report(now)
        self._reported[:, node] = now, report.demand_cores.mean, report.held_gib
        self.latest_costs[node] = {name: (one.cores.mean, one.gib.mean) for name, one in report.workloads.items()}
        if not self._parameters.report_loss or self._rng.random() >= self._parameters.report_loss:
            self._on_report(node, report)

    def _new_model(self, node: int, since: float) -> NodeDemand:
        return NodeDemand(self._names[node], float(self._cores[node]), float(self._gib[node]), self._variant, since)


_NAMES = [field.name for field in fields(Counters)]
_AT, _TOTAL = _NAMES.index("at_s"), _NAMES.index("memory_total")
_AVAILABLE = [_NAMES.index(name) for name in ("memory_free", "memory_buffers", "memory_cached")]


def _columns(counters: Counters, nodes: int) -> FloatArray:
    return np.array([np.broadcast_to(np.asarray(getattr(counters, name), np.float64), nodes) for name in _NAMES])
