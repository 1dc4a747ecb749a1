"""Demand models: what a pod of a workload consumes, in CPU-seconds, threads and bytes over its life.

A model says what a pod would do on an idle machine; how long that takes among other pods is up to the cluster.
CPU-seconds are those of the thesis's nodes (Xeon Gold 6142 under Xen), derived from kube-scheduler's rows of Tables 5.1
to 5.3 alone (`docs/design.md`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.errors import InvalidDemand, InvalidQuantity, shown, suggested
from workloads.mlp import CLASSES
from workloads.pi import MAX_DECIMALS
from workloads.quantity import memory_bytes

MIB = 2**20
PROCESS_BYTES = 16 * MIB
"""Memory of a Python process that does next to nothing."""
TOUCHING_CORES_PER_GIB = 0.0015
"""CPU that `workloads.stress` uses to keep memory resident."""


@dataclass(frozen=True)
class Phase:
    """A part of a pod's work that keeps a number of threads busy."""

    share: float
    """Share of the pod's work that is done in this phase."""
    threads: float
    """Threads that can run at the same time."""


@dataclass(frozen=True)
class Service:
    """What a server does for a client that polls it; how long an answer takes is up to the cluster."""

    rate_per_s: float
    """Requests a second, evenly spaced."""
    cpu_seconds: float
    """CPU time of a request."""
    threads: int
    """Requests that the server works on at the same time."""


@dataclass(frozen=True)
class Demand:
    """What one pod of a workload consumes.

    Raises
    ------
    InvalidDemand
        If a number is negative or not finite, or the shares of the phases do not add up to 1.
    """

    cpu_seconds: float
    """Mean work of a pod; `inf` for one that runs until its `duration_s`."""
    memory_bytes: float
    """Resident memory once the pod is at work."""
    variation: float = 0.0
    """Coefficient of variation of the work between pods (lognormal)."""
    phases: tuple[Phase, ...] = (Phase(1.0, 1.0),)
    """At most two phases, repeated `cycles` times."""
    cycles: int = 1
    contention_loss: float = 0.0
    """Share of its CPU that is wasted at full pressure, as by threads that spin while they wait for each other."""
    initial_memory_bytes: float = 0.0
    """Resident memory at the start."""
    memory_ramp: float = 0.0
    """Share of the work after which memory has grown from `initial_memory_bytes` to `memory_bytes`."""
    duration_s: float = math.inf
    """The pod ends after this time, whatever work it has done."""
    service: Service | None = None
    """The requests that the pod serves, if it is a server; the threads of its phase are then a mean."""
    read_bytes: float = 0.0
    """What the pod reads from its node's disk, evenly over its work; a thread that waits for the disk does not
    compute."""

    def __post_init__(self) -> None:
        numbers = (self.memory_bytes, self.variation, self.initial_memory_bytes, self.memory_ramp, self.read_bytes)
        if not 0 <= self.contention_loss < 1:
            raise InvalidDemand(f"contention_loss must be in [0, 1), got {self.contention_loss}")
        if not (self.cpu_seconds > 0 and self.duration_s > 0 and all(0 <= number < math.inf for number in numbers)):
            raise InvalidDemand(f"work and duration must be positive, the rest finite and not negative: {self}")
        if math.isinf(self.cpu_seconds) and math.isinf(self.duration_s):
            raise InvalidDemand("a pod with endless work needs a duration_s, or it never ends")
        if not 1 <= len(self.phases) <= 2 or not math.isclose(sum(phase.share for phase in self.phases), 1.0):
            raise InvalidDemand(f"one or two phases whose shares add up to 1 are needed, got {self.phases}")
        if self.read_bytes and (math.isinf(self.cpu_seconds) or len(self.phases) > 1):
            raise InvalidDemand(f"a pod that reads has a fixed amount of work in one phase: {self}")
        if self.cycles < 1 or any(phase.threads <= 0 or phase.share <= 0 for phase in self.phases):
            raise InvalidDemand(f"cycles, threads and shares must be positive: {self}")

    def draw_work(self, count: int, rng: np.random.Generator) -> list[float]:
        """Return the work of `count` pods, CPU-seconds, drawn from `rng`."""
        if not math.isfinite(self.cpu_seconds) or self.variation == 0:
            return [self.cpu_seconds] * count
        spread = math.sqrt(math.log1p(self.variation**2))
        return [float(work) for work in self.cpu_seconds * rng.lognormal(-(spread**2) / 2, spread, size=count)]


def pi(digits: float = 2000) -> Demand:
    """`workloads.pi`: one thread, next to no memory; the spigot's work grows with the square of the digits."""
    _positive(digits=digits)
    if digits > MAX_DECIMALS:
        raise _refused("digits", f"digits must be at most {MAX_DECIMALS}, as for the program, got {digits:g}")
    return Demand(cpu_seconds=5.8 * (digits / 2000) ** 2, variation=0.10, memory_bytes=12 * MIB)


def mlp(
    threads: float = 4,
    cpu_seconds: float | None = None,
    memory: str | float = "650Mi",
    samples: float = 5000,
    contention_loss: float = 0.2,
) -> Demand:
    """`workloads.mlp`, the thesis's `sklearn` job: parallel matrix products between serial stretches, and memory.

    The threads are busy four fifths of the time on an idle machine; memory grows while data and network are built.
    Threads of a matrix product spin while they wait for one that lost its CPU: two such programs on one machine took
    1.2 (one thread each) to 1.5 times (two each) the CPU of one alone, hence the contention loss. Unless it is given,
    the work is in proportion to the samples.
    """
    _whole(1_000_000, samples=samples)
    if samples < CLASSES:
        raise _refused("samples", f"samples must be {CLASSES} or more, one of each class, got {samples:g}")
    if cpu_seconds is None:
        cpu_seconds = 73.0 * samples / 5000
    _positive(threads=threads, cpu_seconds=cpu_seconds)
    if isinstance(contention_loss, str) or not 0 <= contention_loss <= 1:
        raise _refused("contention_loss", f"contention_loss must be a share from 0 to 1, got {contention_loss!r}")
    parallel, serial = 0.8 * threads, 0.2
    peak = _bytes(memory=memory)
    return Demand(
        cpu_seconds=cpu_seconds,
        variation=0.05,
        contention_loss=contention_loss,
        phases=(Phase(parallel / (parallel + serial), threads), Phase(serial / (parallel + serial), 1.0)),
        cycles=25,
        memory_bytes=peak,
        initial_memory_bytes=min(120 * MIB, peak),
        memory_ramp=0.04,
    )


def stress(
    duration_s: float,
    cpu: float = 0,
    cpu_load: float | None = None,
    vm: float = 0,
    vm_bytes: str | float | None = None,
) -> Demand:
    """`workloads.stress`: CPU workers with a load in per cent, and vm workers that together hold `vm_bytes`.

    The vm workers touch their memory again and again, slowly: 0.1 % of a core was measured for 1 GiB, 1.2 % for 8 GiB.
    CPU workers are busy in slices shorter than a tick of the simulation, so that only their mean counts.
    """
    _positive(duration_s=duration_s)
    _whole(1024, cpu=cpu, vm=vm)
    if not (cpu or vm):
        raise InvalidDemand("a stressor without workers does nothing: give cpu or vm", "parameters")
    for name, value, workers, of in (("cpu_load", cpu_load, cpu, "cpu"), ("vm_bytes", vm_bytes, vm, "vm")):
        if value is not None and not workers:
            raise _refused(name, f"{name} means nothing without workers: give {of}")
    load = 100.0 if cpu_load is None else cpu_load
    _positive(cpu_load=load)
    if load > 100:
        raise _refused("cpu_load", f"cpu_load is in per cent, at most 100, got {load:g}")
    held = _bytes(vm_bytes="256Mi" if vm_bytes is None else vm_bytes) if vm else 0
    if vm and not held:
        raise _refused("vm_bytes", "vm_bytes must be more than 0, got 0")
    touching = TOUCHING_CORES_PER_GIB * held / 2**30
    return Demand(
        cpu_seconds=math.inf,
        phases=(Phase(1.0, cpu * load / 100 + touching),),
        memory_bytes=PROCESS_BYTES + held,
        duration_s=duration_s,
    )


def web(
    duration_s: float, rate_per_s: float = 10, service_ms: float = 0.2, threads: float = 4, memory: str | float = "32Mi"
) -> Demand:
    """`workloads.web`: a server, and a client beside it that polls it at a steady rate."""
    _positive(duration_s=duration_s, rate_per_s=rate_per_s, service_ms=service_ms, threads=threads)
    _whole(1000, threads=threads)
    busy = rate_per_s * service_ms / 1000
    if busy > threads:
        raise _refused(
            "rate_per_s",
            f"{rate_per_s:g} requests a second of {service_ms:g} ms keep {busy:g} threads busy, the server has "
            f"{threads:g}: its queue would grow without end",
        )
    return Demand(
        cpu_seconds=math.inf,
        phases=(Phase(1.0, busy),),
        memory_bytes=_bytes(memory=memory),
        duration_s=duration_s,
        service=Service(rate_per_s, service_ms / 1000, int(threads)),
    )


def task(
    cores: float,
    cpu_seconds: float,
    memory: str | float = "16Mi",
    variation: float = 0,
    growth: float = 0,
    reads: str | float = 0,
) -> Demand:
    """A fixed amount of work: `cpu_seconds`, done by `cores` threads, with `memory` resident all the time.

    Unlike a stressor, the less CPU it gets, the longer it takes. `variation` is the coefficient of variation of the
    work between pods; memory grows evenly over the first `growth` of the work, a share of it. `reads` bytes are read
    from the node's disk, evenly over the work; pods with more work read more.
    """
    _positive(cores=cores, cpu_seconds=cpu_seconds)
    if isinstance(variation, str) or not 0 <= variation < math.inf:
        raise _refused("variation", f"variation must be a number from 0 on, got {variation!r}")
    if isinstance(growth, str) or not 0 <= growth <= 1:
        raise _refused("growth", f"growth must be a share from 0 to 1, got {growth!r}")
    peak = _bytes(memory=memory)
    return Demand(
        cpu_seconds=cpu_seconds,
        variation=variation,
        phases=(Phase(1.0, cores),),
        memory_bytes=peak,
        initial_memory_bytes=min(PROCESS_BYTES, peak),
        memory_ramp=growth,
        read_bytes=_bytes(reads=reads),
    )


MODELS: dict[str, Callable[..., Demand]] = {"pi": pi, "mlp": mlp, "stress": stress, "task": task, "web": web}
"""The workloads by the names that scenarios use."""


def demand_of(workload: str, parameters: Mapping[str, float | str]) -> Demand:
    """Return the demand model of a workload with its parameters.

    Raises
    ------
    InvalidDemand
        If the workload is unknown, or a parameter is unknown, missing or out of range; its path begins with the
        fields `workload` or `parameters` of a job.
    """
    model = MODELS.get(workload)
    if model is None:
        raise InvalidDemand(f"no workload is named {workload!r}{suggested(workload, sorted(MODELS))}", "workload")
    known = inspect.signature(model).parameters
    unknown = [name for name in parameters if name not in known]
    missing = [name for name, one in known.items() if one.default is one.empty and name not in parameters]
    if unknown or missing:
        wrong = [f"needs {', '.join(missing)}"] * bool(missing)
        wrong += [f"does not take {', '.join(map(shown, unknown))}"] * bool(unknown)
        its = suggested("".join(unknown[:1]), known, f"its parameters: {signature_of(model)}")
        raise InvalidDemand(
            f"workload {workload!r} {' and '.join(wrong)}{its}",
            "parameters",
            *unknown[:1],
        )
    return model(**parameters)


def signature_of(model: Callable[..., Demand]) -> str:
    """Return the parameters of a demand model as text: with defaults, or in brackets if optional without a default.

    Examples
    --------
    >>> signature_of(mlp)
    'threads=4, [cpu_seconds], memory=650Mi, samples=5000, contention_loss=0.2'
    """
    shown = []
    for one in inspect.signature(model).parameters.values():
        default = "" if one.default in (one.empty, None) else f"={one.default}"
        shown.append(f"[{one.name}]" if one.default is None else f"{one.name}{default}")
    return ", ".join(shown)


def _refused(parameter: str, message: str) -> InvalidDemand:
    return InvalidDemand(message, "parameters", parameter)


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if isinstance(number, str) or not 0 < number < math.inf:
            raise _refused(name, f"{name} must be a positive number, got {number!r}")


def _whole(most: int, **numbers: float) -> None:
    for name, number in numbers.items():
        if isinstance(number, str) or not 0 <= number <= most or number != int(number):
            raise _refused(name, f"{name} must be a whole number from 0 to {most}, got {number!r}")


def _bytes(**quantity: str | float) -> int:
    ((name, amount),) = quantity.items()
    try:
        return memory_bytes(str(amount))
    except InvalidQuantity as error:
        raise _refused(name, str(error)) from error
