"""Telemetry of a node that is itself a container (kind, k3d, LXC): what procfs tells, from the node's own cgroup.

In such a node `/proc` is the whole machine's. The hierarchy that is there is found out (`CgroupSource.hierarchy`):

- `v2`: one tree for all controllers, pressure among them.
- `v1`: a tree for every controller, no pressure.
- `hybrid`: as `v1`, with an empty v2 tree in `unified/` that tells the pressure.

CPU utilisation is the time used over the time granted: the quota, or the CPUs of the cpuset, whichever is less, or
all CPUs of the machine. A quota that is changed counts from the next thorough reading on. Memory is what the group uses
without its page cache (tmpfs counts as cache, as in `/proc/meminfo`) over its limit, or over the machine's memory.
Limits of the groups above cannot be seen from inside and are not considered.

CPU pressure is the group's own. The kernel's `some` counts tasks that the quota has stopped as waiting, so throttling
is in it and nothing is added: one busy process with a fifth of a CPU was measured as a pressure of 0.79 (Linux 6.18,
read at 20 Hz; read once in 3 s it was 0.4 to 0.6, for the kernel weighs CPUs between two readings, and the process
moves). Without pressure files (`v1`) the time for which the quota stopped the group's CPUs, over the CPUs granted,
stands for it: n busy threads that get q CPUs are a pressure of (n - q) / q, at most 1, as on a machine of q CPUs. It
lacks the waiting for other groups. Pressure of memory and of input and output is 0 there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from carico.clock import Clock, SystemClock
from carico.errors import TelemetryFileMissing
from carico.telemetry.counters import Counters
from carico.telemetry.files import KeptOpen, PressureFile, pressure_if_any
from carico.telemetry.source import TelemetrySource

_KIND = "cgroup hierarchy"
_ALL_CPUS_BYTES = 2**20
"""The lines of all CPUs in /proc/stat, about 100 bytes each, are within."""


class CgroupSource(TelemetrySource):
    """Reads a node's counters from its cgroup.

    Parameters
    ----------
    root : path
        Where cgroups are mounted; within a container its own group is the root.
    group : str
        A group below, as in `/proc/PID/cgroup`; the root itself by default.
    proc : path
        Where procfs is mounted: the number of CPUs and the memory of the machine are from there.
    clock : Clock, optional
        Dates the readings; the machine's monotonic clock by default.

    Raises
    ------
    TelemetryFileMissing
        If there is no hierarchy, no such group, or a file is missing. The root group of a v2 machine has no
        memory.current: what is not in a container is read from procfs.
    PressureDisabled
        If a v2 group tells no pressure.
    TelemetryMalformed
        If a file does not hold what the kernel writes.
    """

    period_s = 0.1
    """As for procfs; every reading is of now."""

    def __init__(
        self,
        root: str | Path = "/sys/fs/cgroup",
        group: str = "",
        proc: str | Path = "/proc",
        clock: Clock | None = None,
    ) -> None:
        self.root = Path(root)
        self._clock = clock or SystemClock()
        with ExitStack() as opened:
            machine_cpus, self._machine_bytes = _machine(Path(proc))
            self._tree = _tree(self.root, group.strip("/"), machine_cpus, opened)
            self._files = opened.pop_all()
        self._settled: _Settled | None = None
        self._at_s = math.nan
        self._used_us = self._granted_us = self._first_used_us = 0.0

    @property
    def hierarchy(self) -> Literal["v1", "hybrid", "v2"]:
        """Which one was found."""
        return self._tree.hierarchy

    def read(self) -> Counters:
        """Return the counters of now; those of the CPU count microseconds since the first reading.

        Raises
        ------
        TelemetryFileMissing
            If a file vanished, most likely with the container.
        TelemetryMalformed
            If a file does not hold what the kernel writes.
        PressureDisabled
            If the kernel refuses to tell the pressure.
        """
        return self.capture()()

    def capture(self, thorough: bool = True) -> Callable[[], Counters]:
        """See `TelemetrySource`.

        A thorough one looks at limits, and at the pressure of memory and of input and output, which the others repeat,
        and whether the files are still those that were opened.
        """
        if thorough or self._settled is None:
            self._settled = self._tree.settled()
            contents = [file.read() for file in self._tree.moving]
        else:
            contents = [file.peek() for file in self._tree.moving]
        return partial(self._counters, self._clock.now(), self._settled, contents)

    def _counters(self, now: float, settled: _Settled, contents: Sequence[bytes]) -> Counters:
        used_us, used, cached, pressure_us = self._tree.told(contents, settled)
        total = min(settled.memory_limit, self._machine_bytes)
        if used_us < self._used_us or math.isnan(self._at_s):
            # A new group under the old name: all counters begin again, so that whoever compares two readings sees it.
            self._granted_us, self._first_used_us = 0.0, used_us
        else:
            self._granted_us += settled.granted_cpus * 1e6 * (now - self._at_s)
        self._used_us, self._at_s = used_us, now
        return Counters(
            at_s=now,
            cpu_total=self._granted_us,
            cpu_idle=self._granted_us - (used_us - self._first_used_us),
            cpu_pressure_us=pressure_us,
            memory_total=total,
            memory_free=max(total - used, 0),
            memory_buffers=0,
            memory_cached=min(cached, used),
            memory_pressure_us=settled.memory_pressure_us,
            io_pressure_us=settled.io_pressure_us,
        )

    def close(self) -> None:
        """Close the files; closing twice is fine."""
        self._files.close()


class _Settled(NamedTuple):
    """What seldom changes."""

    granted_cpus: float
    """By quota and cpuset."""
    memory_limit: float
    """Bytes; without a limit more than any machine has."""
    memory_pressure_us: int
    io_pressure_us: int


class _Told(NamedTuple):
    """What is new every time."""

    used_us: float
    """CPU time so far."""
    memory: int
    """Bytes in use, and of these in the page cache."""
    cached: int
    pressure_us: float
    """Of the CPU, so far."""


class _Tree(Protocol):
    """What every hierarchy tells of a group."""

    @property
    def hierarchy(self) -> Literal["v1", "hybrid", "v2"]: ...

    @property
    def moving(self) -> Sequence[KeptOpen]:
        """The files to be read every time; the last one dates what they say."""
        ...

    def settled(self) -> _Settled:
        """Read the others."""
        ...

    def told(self, contents: Sequence[bytes], settled: _Settled) -> _Told:
        """Return what the moving files say."""
        ...


class _V2:
    hierarchy: Literal["v2"] = "v2"

    def __init__(self, folder: Path, machine_cpus: int, opened: ExitStack) -> None:
        self._cpu_stat, self._memory_current, self._memory_max, self._memory_stat = (
            opened.enter_context(KeptOpen(folder / name, _KIND))
            for name in ("cpu.stat", "memory.current", "memory.max", "memory.stat")
        )
        # Without the controller cpu there is no quota, without cpuset there are all CPUs.
        self._cpu_max = _if_any(folder / "cpu.max", opened)
        self._cpus = _Cpus(folder / "cpuset.cpus.effective", machine_cpus, opened)
        self._pressure = opened.enter_context(PressureFile(folder / "cpu.pressure", _KIND))
        self._others = [pressure_if_any(folder / f"{what}.pressure", _KIND, opened) for what in ("memory", "io")]
        self.moving = self._memory_current, self._memory_stat, self._cpu_stat, self._pressure

    def settled(self) -> _Settled:
        limit = math.inf if self._memory_max.read() == b"max\n" else self._memory_max.number()
        return _Settled(self._granted_cpus(self._cpus.number()), limit, *_totals_us(self._others))

    def told(self, contents: Sequence[bytes], settled: _Settled) -> _Told:
        in_use, memory, cpu, pressure = contents
        return _Told(
            self._cpu_stat.number_in(cpu, b"usage_usec "),
            self._memory_current.number_in(in_use),
            self._memory_stat.number_in(memory, b"file "),
            self._pressure.some_total_us_in(pressure),
        )

    def _granted_cpus(self, cpus: int) -> float:
        if self._cpu_max is None:
            return cpus
        quota, _, period = self._cpu_max.read().rstrip(b"\n").partition(b" ")
        if not period.isdigit() or not int(period) or not (quota == b"max" or (quota.isdigit() and int(quota))):
            raise self._cpu_max.malformed('"max N" or "N N"', quota + b" " + period)
        return cpus if quota == b"max" else min(cpus, int(quota) / int(period))


class _V1:
    def __init__(self, root: Path, group: str, machine_cpus: int, opened: ExitStack) -> None:
        # Runtimes that mount cpu and cpuacct together leave a link of each name.
        self._usage, self._quota, self._period, self._cpu_stat, self._limit, self._in_use, self._memory_stat = (
            opened.enter_context(KeptOpen(root / controller / group / name, _KIND))
            for controller, name in (
                ("cpuacct", "cpuacct.usage"),
                ("cpu", "cpu.cfs_quota_us"),
                ("cpu", "cpu.cfs_period_us"),
                ("cpu", "cpu.stat"),
                ("memory", "memory.limit_in_bytes"),
                ("memory", "memory.usage_in_bytes"),
                ("memory", "memory.stat"),
            )
        )
        self._cpus = _Cpus(root / "cpuset" / group / "cpuset.effective_cpus", machine_cpus, opened)
        self._pressure, *self._others = (
            pressure_if_any(root / "unified" / group / f"{what}.pressure", _KIND, opened)
            for what in ("cpu", "memory", "io")
        )
        self.moving = self._in_use, self._memory_stat, self._usage, self._pressure or self._cpu_stat
        self._throttled_us = self._waited_us = 0.0

    @property
    def hierarchy(self) -> Literal["v1", "hybrid"]:
        return "v1" if self._pressure is None else "hybrid"

    def settled(self) -> _Settled:
        return _Settled(self._granted_cpus(self._cpus.number()), self._limit.number(), *_totals_us(self._others))

    def told(self, contents: Sequence[bytes], settled: _Settled) -> _Told:
        in_use, memory, usage, pressure = contents
        return _Told(
            self._usage.number_in(usage) / 1e3,
            self._in_use.number_in(in_use),
            self._memory_stat.number_in(memory, b"total_cache "),
            self._waited(self._cpu_stat.number_in(pressure, b"throttled_time ") / 1e3, settled.granted_cpus)
            if self._pressure is None
            else self._pressure.some_total_us_in(pressure),
        )

    def _waited(self, throttled_us: float, granted_cpus: float) -> float:
        """Add what is new over the CPUs granted meanwhile: a quota that is changed makes none of the old pressure."""
        self._waited_us += (throttled_us - self._throttled_us) / granted_cpus
        self._throttled_us = throttled_us
        return self._waited_us

    def _granted_cpus(self, cpus: int) -> float:
        if self._quota.read() == b"-1\n":
            return cpus
        quota, period = self._quota.number(), self._period.number()
        if not quota or not period:
            raise self._quota.malformed("a quota and a period above 0", f"{quota} and {period}".encode())
        return min(cpus, quota / period)


class _Cpus:
    """How many CPUs a cpuset has; the machine's where there is none."""

    def __init__(self, path: Path, machine_cpus: int, opened: ExitStack) -> None:
        self._file = _if_any(path, opened)
        self._machine_cpus = machine_cpus

    def number(self) -> int:
        if self._file is None:
            return self._machine_cpus
        content = self._file.read()
        spans = [part.partition(b"-") for part in content.rstrip(b"\n").split(b",")]
        if not content.endswith(b"\n") or not all(
            low.isdigit() and high.isdigit() == bool(to) for low, to, high in spans
        ):
            raise self._file.malformed('CPUs as in "0-3,8"', content)
        number = sum(int(high or low) - int(low) + 1 for low, _, high in spans)
        if number < 1:
            raise self._file.malformed("at least one CPU", content)
        return number


def _tree(root: Path, group: str, machine_cpus: int, opened: ExitStack) -> _Tree:
    """Find out what is mounted."""
    if (root / group / "cgroup.controllers").exists():
        return _V2(root / group, machine_cpus, opened)
    if (root / "cpuacct" / group).is_dir():
        return _V1(root, group, machine_cpus, opened)
    raise TelemetryFileMissing(
        f"{root} has neither {Path(group) / 'cgroup.controllers'} (cgroup v2) nor {Path('cpuacct') / group} (v1): "
        f"mount the cgroup filesystem there, or name another root and group"
    )


def _machine(proc: Path) -> tuple[int, int]:
    """CPUs and bytes of memory; neither changes while a node runs."""
    with KeptOpen(proc / "stat", "procfs") as stat, KeptOpen(proc / "meminfo", "procfs") as meminfo:
        lines = stat.read(_ALL_CPUS_BYTES).splitlines()
        cpus = sum(line.startswith(b"cpu") and not line.startswith(b"cpu ") for line in lines)
        if not cpus:
            raise stat.malformed('a line "cpuN ..." for every CPU', lines[0] if lines else b"")
        kilobytes = meminfo.labelled(b"\n" + meminfo.read(), b"\nMemTotal:", b" kB")
        if not kilobytes:
            raise meminfo.malformed("a MemTotal above 0 kB", b"MemTotal: 0 kB")
        return cpus, 1024 * kilobytes


def _if_any(path: Path, opened: ExitStack) -> KeptOpen | None:
    return opened.enter_context(KeptOpen(path, _KIND)) if path.exists() else None


def _totals_us(files: list[PressureFile | None]) -> tuple[int, int]:
    memory, io = (file.some_total_us() if file else 0 for file in files)
    return memory, io
