"""Noise within and between machines, from the Azure VM Noise Dataset 2024: one benchmark's runs on many VMs.

Source: https://github.com/Azure/AzurePublicDataset (AzureVMNoiseDataset2024.md), CC-BY-4.0; Freischuetz et al., *TUNA:
Tuning Unstable and Noisy Cloud Applications*, EuroSys 2025. A file holds one benchmark, region, kind of VM and lifespan
(`.../vm_lifespan=long/vm_region=eastus/vm_sku=D8s_v5/unit=Bogo Ops_s.csv`); its rows are in no order of time.

Long-lived VMs (three a file) ran the benchmark thousands of times; short-lived VMs ran it once each, so that noise over
time and between VMs cannot be told apart there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from workloads.errors import InvalidTrace
from workloads.traces.table import Name, read_rows

CORRELATION_S = 10.0
"""Assumed duration of a deviation of a machine's speed (time constant): the simulated cluster's default."""
MIN_RUNS = 10
"""The least runs of a VM from which its spread over time is computed."""
_OUTER = 5.0
"""Percentage of the runs at each end that do not count for the spread over time."""
_OUTER_DEVIATIONS = 1.6449
"""Where these outermost runs begin in a normal distribution, in standard deviations."""


@dataclass(frozen=True)
class NoiseSample:
    """One run of a benchmark."""

    vm: str
    value: float
    """In the file's unit; for small relative spreads it does not matter whether more is better."""
    runtime_s: float
    start: datetime


@dataclass(frozen=True)
class Noise:
    """How much the same work differs, as coefficients of variation."""

    samples: int
    vms: int
    over_time: float | None
    """Variation on one VM, of runs as long as the benchmark's; None if no VM has enough runs."""
    between_vms: float | None
    """Variation of the VMs' medians; None if there is only one VM."""
    run_s: float
    """Median duration of a run, seconds."""

    @property
    def settings(self) -> dict[str, float]:
        """The settings of the simulated cluster that correspond to this noise.

        A run shows its mean speed, but the speed itself varies more. How much more depends on the duration of a
        deviation, which the data do not show: `CORRELATION_S` is assumed, and is one of the settings.
        """
        named: dict[str, float] = {}
        if self.between_vms is not None:
            named["node_speed_variation"] = self.between_vms
        if self.over_time is not None:
            named |= {"speed_noise": self.over_time / share_left(self.run_s), "speed_noise_s": CORRELATION_S}
        return {name: float(f"{value:.3g}") for name, value in named.items()}


def share_left(run_s: float) -> float:
    """Return the share of a speed's variation that remains in its means over `run_s` seconds.

    Deviations fade exponentially with the time constant `CORRELATION_S`.

    Examples
    --------
    >>> share_left(0), round(share_left(30), 3)
    (1.0, 0.675)
    """
    if run_s <= 0:
        return 1.0
    ratio = CORRELATION_S / run_s
    return math.sqrt(2 * ratio * (1 - ratio * -math.expm1(-1 / ratio)))


class _Row(msgspec.Struct, frozen=True):
    value: Annotated[float, Meta(ge=0, le=1e15)]
    runtime: Annotated[float, Meta(ge=0, le=1e9)]
    starttime: Annotated[datetime, Meta(tz=False)]
    VM_id: Name


def read_noise(path: Path) -> list[NoiseSample]:
    """Return the runs of a file, in its order.

    Raises
    ------
    InvalidTrace
        If the file is not one of the dataset's: the message has the line, the value seen and the value wanted.
    """
    rows = read_rows(path, _Row, key=["VM_id", "starttime"])
    return [NoiseSample(row.VM_id, row.value, row.runtime, row.starttime) for _, row in rows]


def noise_of(samples: Sequence[NoiseSample]) -> Noise:
    """Return the noise over time and between VMs.

    Over time: runs relative to their VM's median, all VMs with at least `MIN_RUNS` runs taken together. The spread is
    that of a normal distribution with the same 5th and 95th percentiles, so that runs further out (an interrupted run,
    a burst of a neighbour) do not matter. Between VMs: the standard deviation of the VMs' medians relative to their
    mean, minus the chance differences of medians of noisy runs. A VM that is always slow is not an outlier: it counts.

    Raises
    ------
    InvalidTrace
        If neither can be determined, or half of a VM's runs did no work.
    """
    by_vm: dict[str, list[float]] = {}
    for sample in samples:
        by_vm.setdefault(sample.vm, []).append(sample.value)
    runs = {vm: np.array(values) for vm, values in by_vm.items()}
    medians = {vm: float(np.median(values)) for vm, values in runs.items()}
    if still := [vm for vm, median in medians.items() if median <= 0]:
        raise InvalidTrace(f"the median of the runs of VM {still[0]} is 0: relative to it, nothing can be said")
    often = [values / medians[vm] for vm, values in runs.items() if len(values) >= MIN_RUNS]
    over_time = None
    if often:
        low, high = np.percentile(np.concatenate(often), [_OUTER, 100 - _OUTER])
        over_time = float(high - low) / (2 * _OUTER_DEVIATIONS)
    between = None
    if len(medians) > 1:
        values = np.array(list(medians.values()))
        # A median of n normal runs varies by pi/2 times as much as their mean.
        by_chance = [np.pi / 2 * (over_time or 0.0) ** 2 / len(values) for values in runs.values()]
        seen = float(np.var(values / values.mean(), ddof=1))
        between = max(seen - float(np.mean(by_chance)), 0.0) ** 0.5
    if over_time is None and between is None:
        raise InvalidTrace(f"{len(samples)} runs of one VM are too few: at least {MIN_RUNS}, or several VMs are needed")
    run_s = float(np.median([sample.runtime_s for sample in samples]))
    return Noise(samples=len(samples), vms=len(runs), over_time=over_time, between_vms=between, run_s=run_s)
