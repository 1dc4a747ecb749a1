"""A node's report to the scheduler: what the node demands, what its workloads cost, and which pods are counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from carico.demand.regression import Estimate
from carico.errors import InvalidInput

MOST_CORES = 10_000.0
MOST_GIB = 1_000_000.0
"""Bounds on the size of a node and on the demand of a pod."""
MOST_READS = 1_000_000.0
"""Bound on the reads under way on a node."""
MOST_PODS = 10_000
"""Bound on the number of pods on a node."""


@dataclass(frozen=True)
class WorkloadReport:
    """What a node knows about a workload.

    Raises
    ------
    InvalidInput
        If a number is not finite, negative, or larger than any node's.
    """

    pods: int
    """Pods of the workload that run on the node."""
    stops_per_s: float
    """Pods of the workload that have recently stopped per second."""
    cores: Estimate
    gib: Estimate
    """The demand of a pod."""
    reads: Estimate | None = None
    """Reads that a pod has under way; None if that is not known."""
    exposed: float = 0.0
    """How many of the pods `demand_cores` counts at the cost above, because the node has not observed yet what it
    demands with them; a fraction of a pod where that was observed in part."""
    measured: bool = False
    """Whether pods have lately been measured by themselves, so that the demand is known even if none starts or stops;
    `reads` is not."""

    def __post_init__(self) -> None:
        (cores, cores_variance), (gib, gib_variance) = self.cores, self.gib
        # A sound report passes this test, which is cheaper than the checks; NaN fails every comparison.
        if (
            0 <= self.pods <= MOST_PODS
            and 0 <= self.stops_per_s <= MOST_PODS
            and 0 <= cores <= MOST_CORES
            and 0 <= cores_variance <= MOST_CORES
            and 0 <= gib <= MOST_GIB
            and 0 <= gib_variance <= MOST_GIB
            and 0 <= self.exposed <= self.pods
            and (self.reads is None or (0 <= self.reads.mean <= MOST_READS and 0 <= self.reads.variance <= MOST_READS))
        ):
            return
        _check("pods", self.pods, MOST_PODS)
        _check("stops_per_s", self.stops_per_s, MOST_PODS)
        _check_estimate("a pod's cores", self.cores, MOST_CORES)
        _check_estimate("a pod's GiB", self.gib, MOST_GIB)
        _check("exposed pods", self.exposed, self.pods)
        if self.reads is not None:
            _check_estimate("a pod's reads", self.reads, MOST_READS)


@dataclass(frozen=True)
class DiskReport:
    """What a node knows about its disks.

    Raises
    ------
    InvalidInput
        If a number is not finite, negative, or larger than any node's.
    """

    reads: float
    """Reads under way now, with all pods that the node counts."""
    level: float
    """How many reads may be under way, see `carico.demand.disk`."""

    def __post_init__(self) -> None:
        _check("reads under way", self.reads, MOST_READS)
        _check("level of reads", self.level, MOST_READS)


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
        The node's demand now, with all pods that it counts.
    held_gib : float
        Memory that the node holds.
    baseline_gib : float
        Memory that the empty node holds.
    workloads : mapping
        What the node knows about every workload, by the workload's name.
    counted : mapping
        The workload of every pod that `demand_cores` counts, by UID; None for pods of the platform.
    disk : DiskReport, optional
        The node's disks; None if the node does not see what is read from them.

    Raises
    ------
    InvalidInput
        If a number is not finite, negative, or larger than any node's.
    """

    node: str
    cores: float
    gib: float
    demand_cores: Estimate
    held_gib: float
    baseline_gib: float
    workloads: Mapping[str, WorkloadReport]
    counted: Mapping[str, str | None]
    disk: DiskReport | None = None

    def __post_init__(self) -> None:
        for name, value, most in (("cores", self.cores, MOST_CORES), ("gib", self.gib, MOST_GIB)):
            _check(f"{self.node}: {name}", value, most)
            if not value:
                raise InvalidInput(f"{self.node}: {name} must be more than 0")
        _check_estimate(f"{self.node}: demand_cores", self.demand_cores, MOST_CORES)
        _check(f"{self.node}: held_gib", self.held_gib, MOST_GIB)
        _check(f"{self.node}: baseline_gib", self.baseline_gib, MOST_GIB)
        _check(f"{self.node}: number of counted pods", len(self.counted), MOST_PODS)


def _check_estimate(name: str, estimate: Estimate, most: float) -> None:
    _check(name, estimate.mean, most)
    _check(f"variance of {name}", estimate.variance, most**2)


def _check(name: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= most):
        raise InvalidInput(f"{name} must be in [0, {most:g}], got {value}")
