"""The constants of the variant `demand`, each with its meaning; `benchmarks/shapes.py` shows what changing one does.

Two resources are told apart everywhere, in this order: CPU in cores, which may be asked for beyond what there is, and
memory in GiB, which may not. A pair of them is an array of shape (2,).
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
    """What a pod of an unknown workload is assumed to demand."""
    first_doubt_cores: float = 1.0
    first_doubt_gib: float = 0.6
    """Standard deviation of that."""
    fade_s: float = 300.0
    """Time constant with which what was learned of a workload fades back to the assumption."""
    noise_cores: float = 0.2
    noise_gib: float = 0.05
    """Standard deviation of what the pods do not explain in one observation."""
    drift_cores: float = 0.05
    drift_gib: float = 0.005
    """How far the demand of the empty node strays in a second (standard deviation of a random walk)."""
    saturated: float = 1.8
    """Threads a core above which pressure is close to its ceiling: demand may be higher than it looks."""
    churn_s: float = 0.3
    """The container runtime computes for so long after a pod has started or stopped."""
    peak_s: float = 60.0
    """Time constant with which the most that pods have held fades to what they hold."""
    settling_s: float = 1.5
    """A pod that has started holds its first memory after so long at the latest."""
    growth_s: float = 2.0
    """A workload whose memory has grown is doubted for so long."""
    steps_per_s: float = 2.0
    """How often a node learns from its telemetry."""
    report_change: float = 0.3
    """A node reports once a second, when a pod starts or stops, and when its demand has changed by so many cores or
    GiB."""
    # What the scheduler does
    finest_cores: float = 0.05
    finest_gib: float = 0.01
    """Standard deviation below which no node is believed to know a cost: a bound on what one node does to all."""
    caution: float = 1.0
    """Variance of a demand, in cores² or GiB², that counts as one core or GiB of demand."""
    headroom: float = 0.125
    """Nodes are filled to cores + headroom √cores: pods come and go, and a CPU that waits for a pod is lost."""
    threads_per_core: float = 2.0
    """The higher level, if everything that waits fits below it, and would wait for long otherwise."""
    patience_s: float = 10.0
    """What waits no longer than this for pods to stop is left waiting rather than placed above the lower level."""
    wide: float = 0.5
    """Pods that demand more than this share of a node's cores are never placed above the lower level."""
    memory_limit: float = 0.95
    """Share of a node's memory that is given away."""
    hold_s: float = 2.0
    """For so long at most, the answer about a pod waits for room to appear, if no pod has room anywhere."""
    stops_s: float = 10.0
    """Time over which the rate at which pods stop is averaged: pods that started together stop together, and what is
    averaged over less swings with them."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"{name} must be finite and not negative, got {value}")
        for name in (
            "first_doubt_cores",
            "first_doubt_gib",
            "fade_s",
            "noise_cores",
            "noise_gib",
            "steps_per_s",
            "stops_s",
        ):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)}")
        if not self.memory_limit <= 1:
            raise InvalidInput(f"memory_limit must be in [0, 1], got {self.memory_limit}")


DEMAND = DemandVariant(
    name="demand",
    description="learns what a pod of each workload demands, and fills nodes to a level",
)
