"""Variants: named, complete sets of CARICO's parameters.

A variant fixes everything that decides what CARICO does, so that a result that names its variant can be reproduced. The
thesis leaves most numbers open; `docs/design.md` explains each choice, and what other choices change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from carico.errors import InvalidInput
from carico.model.aggregator import BATCH_SIZE
from carico.model.estimators import ESTIMATORS, KalmanSettings
from carico.telemetry.counters import CPU_METRICS

SAMPLES_PER_S = 10
"""How often every agent reads its node's telemetry (thesis §4.2)."""
_LARGEST_BATCH = 100
"""Ten seconds; the thesis steps once a second."""


@dataclass(frozen=True)
class Variant:
    """Everything that decides what CARICO does."""

    name: str
    description: str
    cpu_metric: str = "utilisation-and-pressure"
    """How CPU usage is read, one of `carico.telemetry.counters.CPU_METRICS` (thesis §4.2.1)."""
    batch_size: int = BATCH_SIZE
    """Samples per step: an agent steps once a second (thesis §4.2). Aggregation servers take no subspaces of larger
    batches than `BATCH_SIZE`, because these would outweigh the other nodes' (`carico.model.aggregator.impossible`)."""
    alpha_slow: float = 0.1
    alpha_fast: float = 0.5
    change_threshold: float = 0.05
    change_patience: int = 3
    """Dynamic EMA (thesis §4.2.2), see `carico.model.smoothing`."""
    rank: int | None = None
    """Components kept by every decomposition; all by default."""
    batch_weight: float = 0.1
    """Weight of a new batch against the node's own past (the forgetting factor of §3.3)."""
    global_weight: float = 0.5
    """Weight of the aggregated subspace against the node's own, for the signal only (§4.3)."""
    workload_exponent: float = 1.0
    """Exponent of σ_1 in the average workload: 1 in the thesis, 1/2 in Spazio."""
    rebase: bool = True
    """Measure the signal in units of the idle node's signal; the correction for the moving unit of k."""
    idle_memory: float = 0.98
    """Share of the known idle usage that is kept at every step in which no pod runs. The memory lasts about a minute,
    so that a passing load of other programs counts as load, not as part of the idle node."""
    estimator: str = "dual"
    kalman: KalmanSettings = field(default_factory=KalmanSettings)
    hold_off_s: float = 1.0
    """How long after a pod event nothing is estimated, and Pod-Capacity comes from the baseline (§3.5, §4.2.4)."""
    blind_after_s: float = 10.0
    """A node without telemetry for longer than this offers nothing; until then Eq. 3.6 counts from the baseline."""
    until_counted: bool = False
    """Hold the reservation of a running pod until a report counts the pod (`carico.scheduling.scheduler`). In the
    thesis it ends when the pod runs (§4.4), and that is what is simulated; deployed schedulers hold it
    (`carico.config.ExtenderConfig`)."""
    exchange_drift: float = 0.02
    exchange_age_s: float = 5.0
    """A node exchanges its subspace once its own average workload has changed by more than `exchange_drift`, relative
    to the workload's length, and after `exchange_age_s` at the latest, because peers may have news (§4.1)."""

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise InvalidInput(f"estimator must be one of {sorted(ESTIMATORS)}, got {self.estimator!r}")
        if self.cpu_metric not in CPU_METRICS:
            raise InvalidInput(f"cpu_metric must be one of {', '.join(CPU_METRICS)}, got {self.cpu_metric!r}")
        for name in ("batch_weight", "global_weight", "idle_memory"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if self.rank is not None and self.rank < 1:
            raise InvalidInput(f"rank must be at least 1, or None for all components, got {self.rank}")
        if not 0 <= self.workload_exponent < math.inf:
            raise InvalidInput(f"workload_exponent must be finite and not negative, got {self.workload_exponent}")
        if not 1 <= self.batch_size <= _LARGEST_BATCH:
            raise InvalidInput(f"batch_size must be in [1, {_LARGEST_BATCH}], got {self.batch_size}")
        for name in ("hold_off_s", "blind_after_s", "exchange_drift", "exchange_age_s"):
            if not getattr(self, name) >= 0:
                raise InvalidInput(f"{name} must not be negative, got {getattr(self, name)}")


THESIS_REBASED = Variant(
    name="thesis-rebased",
    description="the thesis with the signal measured in units of the idle node (the default)",
)
THESIS_LITERAL = replace(
    THESIS_REBASED,
    name="thesis-literal",
    description="the thesis as written: baseline and cost in whatever unit k had when they were learned",
    rebase=False,
)
UTILISATION_ONLY = replace(
    THESIS_REBASED,
    name="utilisation-only",
    description="thesis-rebased on CPU utilisation without pressure: the early prototype of thesis §4.2.1",
    cpu_metric="utilisation",
)

_PATIENCE_PERIODS = 3


def on_metrics_server(variant: Variant, period_s: float) -> Variant:
    """Return the variant adapted to a metrics server that has new values every `period_s` seconds.

    Between two values the model counts pods from the baseline; it is blind once several values are missing.

    Raises
    ------
    InvalidInput
        If the variant learns from pressure, which a metrics server does not provide.
    """
    if variant.cpu_metric != "utilisation":
        raise InvalidInput(
            f"a metrics server provides no pressure, which the variant {variant.name} learns from: "
            f"use the variant {UTILISATION_ONLY.name}"
        )
    return replace(variant, blind_after_s=_PATIENCE_PERIODS * period_s)


VARIANTS: dict[str, Variant] = {variant.name: variant for variant in (THESIS_REBASED, THESIS_LITERAL, UTILISATION_ONLY)}
DEFAULT_VARIANT = THESIS_REBASED
