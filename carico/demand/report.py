"""What a node tells the scheduler: what it demands, what its workloads cost, and which pods that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carico.demand.regression import Estimate


@dataclass(frozen=True)
class WorkloadReport:
    """What a node knows of a workload."""

    pods: int
    """Pods that run there."""
    stops_per_s: float
    """How many of them have stopped in a second, of late."""
    cores: Estimate
    gib: Estimate
    """What a pod demands."""


@dataclass(frozen=True)
class DemandReport:
    """A node's report.

    Parameters
    ----------
    node : str
        The node's name.
    cores, gib : float
        The node's size.
    demand_cores : Estimate
        What the node demands now, with all pods that it counts.
    held_gib : float
        Memory that the node holds.
    baseline_gib : float
        Memory that the empty node holds.
    workloads : mapping
        What it knows of every workload.
    counted : mapping
        The workload of every pod that `demand` counts, by UID; None for pods of the platform.
    """

    node: str
    cores: float
    gib: float
    demand_cores: Estimate
    held_gib: float
    baseline_gib: float
    workloads: Mapping[str, WorkloadReport]
    counted: Mapping[str, str | None]
