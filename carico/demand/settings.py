"""The constants of the variant `demand`, each with its meaning; `benchmarks/shapes.py` shows the effect of each rule.

There are three resources: CPU in cores, whose demand may exceed the supply; memory in GiB, whose demand may not; and
the disk, in reads under way at a time, of which more than the disk serves only slow each other down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from carico.errors import InvalidInput


@dataclass(frozen=True)
class DemandVariant:
    """Everything that decides what the variant `demand` does."""

    name: str
    description: str
    # What a node learns
    first_cores: float = 1.0
    first_gib: float = 0.5
    """The assumed demand of a pod of an unknown workload."""
    first_doubt_cores: float = 1.0
    first_doubt_gib: float = 0.6
    first_doubt_reads: float = 0.5
    """Standard deviation of the assumed demand; a pod of an unknown workload is assumed to read nothing."""
    fade_s: float = 300.0
    """Time constant with which what was learned of a workload fades back to the assumption."""
    noise_cores: float = 0.2
    noise_gib: float = 0.05
    noise_reads: float = 0.2
    """Standard deviation of the part of an observation that pods do not explain."""
    drift_cores: float = 0.05
    drift_gib: float = 0.005
    drift_reads: float = 0.02
    """How far the demand of the empty node drifts in a second (standard deviation of a random walk)."""
    saturated: float = 1.8
    """Threads per core above which pressure is close to its ceiling, so that the true demand may be higher."""
    churn_s: float = 0.3
    """How long the container runtime computes after a pod has started or stopped."""
    pods_s: float = 5.0
    """How often a node reads what each of its pods uses by itself, which shows what pods cost that neither start nor
    stop; with 0 it never does."""
    pods_new_s: float = 1.0
    """The same, of some pods of workloads whose memory is unknown or grows."""
    pods_fade_s: float = 3600.0
    """As `fade_s`, of the CPU of workloads whose pods are read and neither start nor stop: changes will be seen. Not so
    of memory: pods that grow between two readings may be killed."""
    pods_noise_cores: float = 0.05
    pods_noise_gib: float = 0.02
    """Standard deviation of what is read from what pods of the workload cost."""
    pods_waiting: float = 0.1
    """If pods of a workload wait for a CPU for more than this share of the time, what they use is not what they
    demand."""
    peak_s: float = 60.0
    """Time constant with which the peak of a workload's memory fades to the present memory."""
    settling_s: float = 1.5
    """The longest time from a pod's start until it holds its initial memory."""
    growing_doubt: float = 0.6
    """Standard deviation of a peak of memory that is still to come, as a share of what pods hold already; at least
    `first_doubt_gib`."""
    growth_s: float = 2.0
    """How long a workload is doubted after its memory has grown."""
    disk_s: float = 900.0
    """After this time, more reads are tried again than were found to saturate a node's disks."""
    steal_s: float = 10.0
    """Time over which stolen CPU time is averaged: a node that a hypervisor runs is filled as if it had only the CPUs
    that the hypervisor leaves to it. With 0, stolen time does not count."""
    steps_per_s: float = 2.0
    """How often a node learns from its telemetry."""
    report_change: float = 0.3
    """A node reports once a second, when a pod starts or stops, and when its demand has changed by so many cores or
    GiB."""
    # What the scheduler remembers and does
    learned_s: float = 30.0
    """After how many seconds of well-known cost the experience with a workload weighs as much as the assumption."""
    remember_s: float = 7 * 86400.0
    """Time constant with which the experience with a workload fades when none of its pods runs."""
    returning: float = 0.25
    """The variance of a well-known workload's cost when it returns, as a share of that of an unknown one."""
    finest_cores: float = 0.05
    finest_gib: float = 0.01
    finest_reads: float = 0.02
    """The smallest standard deviation that a node is credited with: it limits the influence of one node on all."""
    caution: float = 1.0
    """Demand, in cores or GiB, that is added for each core² or GiB² of a demand's variance."""
    headroom: float = 0.125
    """Nodes are filled to cores + headroom √cores: pods come and go, and a CPU that waits for a pod is lost."""
    threads_per_core: float = 2.0
    """The higher level, which applies if everything that waits fits below it and would otherwise wait for long."""
    patience_s: float = 10.0
    """Pods that would wait no longer than this for other pods to stop are not placed above the lower level."""
    wide: float = 0.5
    """Pods that demand more than this share of a node's cores are never placed above the lower level."""
    gap: float = 0.3
    """Share of such a pod that must fit below the lower level if it has several threads and only such pods wait."""
    critical_share: float = 0.5
    """Share of a node's cores up to which a node with a latency-critical pod takes pods that fit as a whole."""
    reads_from: float = 0.05
    """Pods that certainly have more reads under way, on average, do not go to nodes whose disks are saturated."""
    memory_limit: float = 0.95
    """Share of a node's memory that pods may fill."""
    hold_s: float = 2.0
    """The longest time for which the answer about a pod is held until room appears, if no pod has room anywhere."""
    stops_s: float = 10.0
    """Time over which the rate of stopping pods is averaged: pods that started together stop together, and a shorter
    average would swing with them."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"{name} must be finite and not negative, got {value}")
        for name in (
            "first_doubt_cores",
            "first_doubt_gib",
            "first_doubt_reads",
            "fade_s",
            "noise_cores",
            "noise_gib",
            "noise_reads",
            "pods_fade_s",
            "pods_noise_cores",
            "pods_noise_gib",
            "disk_s",
            "steps_per_s",
            "stops_s",
            "learned_s",
            "remember_s",
        ):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)}")
        if not self.memory_limit <= 1:
            raise InvalidInput(f"memory_limit must be in [0, 1], got {self.memory_limit}")


DEMAND = DemandVariant(
    name="demand",
    description="learns what a pod of each workload demands, and fills nodes to a level",
)
