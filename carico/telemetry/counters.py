"""Kernel counters of a node and the [0, 1]-normalised telemetry between two readings (thesis §4.2.1).

Fields are floats for one node or arrays for many nodes; the arithmetic is the same. A reading never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import FloatArray
from carico.errors import CounterWentBackwards, InvalidInput

Number = float | FloatArray


@dataclass(frozen=True, eq=False)
class Counters:
    """One reading of a node's counters (or of many nodes': arrays with a leading node axis)."""

    at_s: Number
    """When the counters were read, seconds on the reader's clock."""
    cpu_total: Number
    """CPU time in all modes since boot, summed over CPUs (any unit, jiffies on Linux)."""
    cpu_idle: Number
    """The part of `cpu_total` spent in the modes idle and iowait."""
    cpu_pressure_us: Number
    """`some total` of CPU pressure since boot, microseconds."""
    memory_total: Number
    """Bytes (any unit, the same for all four memory fields)."""
    memory_free: Number
    memory_buffers: Number
    memory_cached: Number
    memory_pressure_us: Number = 0.0
    """`some total` of memory pressure since boot, microseconds; 0 if the source does not provide it."""
    io_pressure_us: Number = 0.0
    """The same for I/O."""
    disk_reading_ms: Number = 0
    """How long reads from disks took since boot, in all, milliseconds; 0 if the source does not provide it."""
    disk_read_work: Number = 0
    """How much was read since boot: sectors of 512 bytes, and `SECTORS_PER_READ` more for each read."""
    cpu_stolen: Number = 0
    """The part of `cpu_total` in which a thread held a CPU that the hypervisor had given to others; 0 where there is no
    hypervisor, or the source does not provide it."""


SECTORS_PER_READ = 128
"""A read takes about as long as it takes to transfer so many sectors (64 KiB), a tenth of a millisecond on a
solid-state disk: so disks do about as much work in a second, whether their reads are small or large."""
_values = attrgetter(*(field.name for field in fields(Counters)))


@dataclass(frozen=True, eq=False)
class Telemetry:
    """Usage of a node between two readings; every share is in [0, 1]."""

    at_s: Number
    """When the interval ended."""
    cpu_utilisation: Number
    cpu_pressure: Number
    memory_utilisation: Number
    memory_pressure: Number = 0.0
    """0 if the source does not provide it."""
    io_pressure: Number = 0.0
    """0 if the source does not provide it."""
    cpu_stolen: Number = 0.0
    """The share of the CPU time that the hypervisor gave to others; it is part of the utilisation."""


class DiskUse(NamedTuple):
    """What a node read from its disks between two readings."""

    reading: float
    """Reads under way at a time, on average; by Little's law, the time that all reads took, per second."""
    work_per_s: float
    """How much was read, see `Counters.disk_read_work`."""


class PodCounters(NamedTuple):
    """One reading of a pod's own counters."""

    at_s: float
    """When they were read, seconds on the reader's clock."""
    cpu_s: float
    """CPU time that the pod has used so far, seconds."""
    waited_s: float
    """For how long at least one of its threads has waited for a CPU so far, seconds."""
    gib: float
    """Memory that it holds now, without the page cache, GiB."""


class PodUse(NamedTuple):
    """What a pod used between two readings."""

    cores: float
    waiting: float
    """The share of the time for which at least one of its threads waited for a CPU, [0, 1]."""
    gib: float
    """Memory that it held at the end, without the page cache, GiB."""
    gib_per_s: float
    """By how much that has grown."""


CPU_METRICS = ("utilisation-and-pressure", "utilisation", "utilisation-pressure-and-steal")
"""How CPU usage is computed. The mean of utilisation and pressure keeps growing with the number of pods when all CPUs
are busy (thesis §4.2.1); utilisation alone is the metric of an early prototype that packed too few pods. A guest of a
hypervisor sees CPU time that others take as utilisation and not as pressure, however long its threads wait (thesis
§4.2.1, §5.7); the third counts it as pressure."""


def telemetry_between(previous: Counters, current: Counters) -> Telemetry:
    """Normalise the usage between two readings.

    CPU utilisation is 1 - (Δidle + Δiowait) / Δ(all modes). Pressure is Δtotal over the true interval, so that a late
    reading does not look like pressure. Memory utilisation is 1 - (free + buffers + cached) / total.

    Raises
    ------
    CounterWentBackwards
        If time did not advance or a cumulative counter fell, as after a reboot or with readings of two machines.
    """
    elapsed_s = np.asarray(current.at_s) - np.asarray(previous.at_s)
    if not (elapsed_s > 0).all():
        raise CounterWentBackwards(
            f"the times of readings must increase, got {previous.at_s} s then {current.at_s} s: drop the older one"
        )
    total = _growth(previous, current, "cpu_total")
    # The kernel's iowait may fall (proc(5)), so the growth of idle time is not checked; the ratio is clipped instead.
    idle = np.asarray(current.cpu_idle) - np.asarray(previous.cpu_idle)
    elapsed_us = elapsed_s * 1e6
    cpu, memory, io = (
        np.minimum(_growth(previous, current, f"{what}_pressure_us") / elapsed_us, 1.0)
        for what in ("cpu", "memory", "io")
    )
    # Some hypervisors correct steal time downwards, so its growth is not checked, either.
    stolen = np.asarray(current.cpu_stolen) - np.asarray(previous.cpu_stolen)
    available = np.asarray(current.memory_free) + np.asarray(current.memory_buffers) + np.asarray(current.memory_cached)
    return Telemetry(
        at_s=current.at_s,
        cpu_utilisation=_share(total - idle, total),
        cpu_pressure=cpu,
        memory_utilisation=_within_0_and_1(1.0 - available / np.asarray(current.memory_total)),
        memory_pressure=memory,
        io_pressure=io,
        cpu_stolen=_share(stolen, total),
    )


def cpu_left(telemetry: Telemetry) -> Number:
    """Return the share of the CPU time wanted by threads that the hypervisor left to them; 1 without a hypervisor."""
    wanted = np.asarray(telemetry.cpu_utilisation)
    return 1.0 - _share(np.asarray(telemetry.cpu_stolen), wanted)


def disk_use_between(previous: Counters, current: Counters) -> DiskUse | None:
    """Return what one node read from its disks between two readings.

    Returns
    -------
    DiskUse or None
        None if the source does not provide it, or a disk was taken away meanwhile: the rest of them show less then.
    """
    elapsed_s = float(current.at_s) - float(previous.at_s)
    reading_s = (float(current.disk_reading_ms) - float(previous.disk_reading_ms)) / 1000
    work = float(current.disk_read_work) - float(previous.disk_read_work)
    if not current.disk_read_work or elapsed_s <= 0 or reading_s < 0 or work < 0:
        return None
    return DiskUse(reading_s / elapsed_s, work / elapsed_s)


def pod_use_between(before: PodCounters, after: PodCounters) -> PodUse | None:
    """Return what a pod used between two readings.

    Returns
    -------
    PodUse or None
        None if no time has passed, or a counter fell, because the counters are those of another pod.
    """
    elapsed_s = after.at_s - before.at_s
    cpu_s, waited_s = after.cpu_s - before.cpu_s, after.waited_s - before.waited_s
    if not elapsed_s > 0 or cpu_s < 0 or waited_s < 0:
        return None
    return PodUse(cpu_s / elapsed_s, min(waited_s / elapsed_s, 1.0), after.gib, (after.gib - before.gib) / elapsed_s)


def consecutive(readings: Sequence[Counters]) -> tuple[Counters, Counters]:
    """Return two copies of n readings, one without the last and one without the first, as arrays of shape (n - 1,)."""
    columns = np.array([_values(reading) for reading in readings], dtype=np.float64).T
    return Counters(*columns[:, :-1]), Counters(*columns[:, 1:])


def usage_vector(telemetry: Telemetry, cpu: str) -> FloatArray:
    """Combine telemetry into the usage vector (CPU, memory) that the model learns from, shape (..., 2).

    Parameters
    ----------
    telemetry : Telemetry
        Of one node or many.
    cpu : {"utilisation-and-pressure", "utilisation", "utilisation-pressure-and-steal"}
        How CPU usage is computed, one of `CPU_METRICS`.
    """
    if cpu == "utilisation-and-pressure":
        usage = (np.asarray(telemetry.cpu_utilisation) + np.asarray(telemetry.cpu_pressure)) / 2
    elif cpu == "utilisation-pressure-and-steal":
        waiting = np.minimum(np.asarray(telemetry.cpu_pressure) + np.asarray(telemetry.cpu_stolen), 1.0)
        usage = (np.asarray(telemetry.cpu_utilisation) + waiting) / 2
    elif cpu == "utilisation":
        usage = np.asarray(telemetry.cpu_utilisation)
    else:
        raise InvalidInput(f"cpu must be one of {', '.join(CPU_METRICS)}, got {cpu!r}")
    return np.stack([usage, np.asarray(telemetry.memory_utilisation)], axis=-1)


def _growth(previous: Counters, current: Counters, name: str) -> FloatArray:
    """Return by how much a cumulative counter has grown."""
    before, after = np.asarray(getattr(previous, name)), np.asarray(getattr(current, name))
    if (after < before).any():
        raise CounterWentBackwards(
            f"{name} fell from {before[after < before].flat[0]:g} to {after[after < before].flat[0]:g}: "
            f"the machine was restarted or another one was read; start again from a new reading"
        )
    return np.asarray(after - before)


def _share(part: ArrayLike, whole: ArrayLike) -> FloatArray:
    """Return part / whole in [0, 1], or 0 where the whole is 0 because no tick has elapsed."""
    whole = np.asarray(whole, dtype=np.float64)
    part = np.asarray(part, dtype=np.float64)
    ratio = np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)
    return _within_0_and_1(ratio)


def _within_0_and_1(ratio: FloatArray) -> FloatArray:
    return np.minimum(np.maximum(ratio, 0.0), 1.0)[()]  # np.clip takes five times as long
