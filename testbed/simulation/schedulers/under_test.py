"""What every scheduler under test is on the simulated cluster: a plugin of the framework, and perhaps agents on nodes.

CARICO, kube-scheduler and schedulers of one's own go through this interface alone; the cluster knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVarTuple

import numpy as np
import simpy

from carico.arrays import FloatArray
from carico.demand.waiting import Kind
from carico.telemetry.counters import Counters, PodCounters, Telemetry
from testbed.simulation.control_plane.framework import SchedulingPlugin
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.recorder import Costs
from workloads.scenario import ClusterShape

Reported = TypeVarTuple("Reported")


class Agents(Protocol):
    """What runs on the nodes and reads their counters."""

    @property
    def latest(self) -> dict[str, FloatArray] | None:
        """The columns of CARICO's reports, see `REPORTED`; None if these agents are not CARICO's."""
        ...

    @property
    def latest_costs(self) -> Sequence[Costs] | None:
        """What each node has learned of workloads, by node; None if these agents learn no such thing."""
        ...

    def sample(self, counters: Counters) -> Telemetry:
        """Process a 10 Hz reading of all nodes, and return it as telemetry."""
        ...

    def pod_event(self, node: int, uid: str, workload: str | None, change: int, at: float) -> None:
        """Note that a pod has started (+1) or stopped (-1) on a node; the platform's pods have no workload."""
        ...

    def pod_found(self, node: int, uid: str, workload: str | None, at: float) -> None:
        """Note that a pod runs that was there before the node's agent."""
        ...

    def start(self, node: int) -> None:
        """Start a new agent on a node that has come up."""
        ...

    def stop(self, node: int) -> None:
        """End the agent of a node that has gone down."""
        ...


class Delayed(Protocol):
    """Returns a callback for reports that delays them as the parameters say."""

    def __call__(self, report: Callable[[int, *Reported], None]) -> Callable[[int, *Reported], None]:
        """Return `report`, or a callback that calls it later."""
        ...


@dataclass(frozen=True)
class Site:
    """The simulated cluster, as far as schedulers under test are concerned."""

    env: simpy.Environment
    names: list[str]
    """The nodes."""
    shape: ClusterShape
    cores: FloatArray
    memory_bytes: FloatArray
    kinds: Mapping[str, Kind]
    """The kind of every job's pods, by the job's name."""
    parameters: SimulationParameters
    scheduler_rng: np.random.Generator
    agents_rng: np.random.Generator
    first: Counters
    """The first reading of the nodes' counters."""
    read_pods: Callable[[Collection[str]], Mapping[str, PodCounters]]
    """Returns what the control groups of those pods show that run, by UID."""
    wake: Callable[[int], None]
    """Changes a node, so that refused pods are tried again."""
    delayed: Delayed

    @property
    def max_pods(self) -> list[int]:
        """The most pods that each node takes."""
        return [node.max_pods for node in self.shape.each_node]


@dataclass(frozen=True)
class UnderTest:
    """A scheduler under test that has been put on a cluster."""

    plugin: SchedulingPlugin
    parameters: SimulationParameters
    """Those of its framework."""
    agents: Agents | None = None
    tick: Callable[[], None] | None = None
    """Called every `TICK_S` if it has something to do by itself."""
