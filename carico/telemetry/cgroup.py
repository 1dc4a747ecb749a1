"""Telemetry of a node that is itself a container (kind, k3d, LXC), from the node's own cgroup.

In such a node `/proc` describes the whole machine. The source detects the hierarchy (`CgroupSource.hierarchy`):

- `v2`: one tree for all controllers, with pressure.
- `v1`: a tree for every controller, without pressure.
- `hybrid`: as `v1`, with an empty v2 tree in `unified/` that gives the pressure.

CPU utilisation is the CPU time used divided by the CPU time granted: that of the quota or of the cpuset's CPUs,
whichever is less, or else of all the machine's CPUs. A changed quota counts from the next thorough reading on. Memory
utilisation is the memory that the group uses without its page cache (tmpfs counts as cache, as in `/proc/meminfo`),
divided by the group's limit or the machine's memory. Limits of parent groups cannot be seen from inside and are
ignored.

CPU pressure is the group's own. The kernel's `some` counts tasks stopped by the quota as waiting, so it includes
throttling: one busy process with a fifth of a CPU was measured as a pressure of 0.79 (Linux 6.18, read at 20 Hz; read
once in 3 s it was 0.4 to 0.6, because the kernel weights CPUs between two readings, and the process migrates). Without
pressure files (`v1`), the time for which the quota stopped the group's CPUs, divided by the CPUs granted, replaces the
pressure: n busy threads that get q CPUs give a pressure of (n - q) / q, at most 1, as on a machine with q CPUs. This
does not include the time spent waiting for other groups. The pressure of memory and I/O is 0 under `v1`.
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
from carico.telemetry.procfs import cpus_in
from carico.telemetry.source import TelemetrySource

_KIND = "cgroup hierarchy"


class CgroupSource(TelemetrySource):
    """Reads a node's counters from its cgroup.

    Parameters
    ----------
    root : path
        Where cgroups are mounted; inside a container, the root is the container's own group.
    group : str
        A group below the root, as in `/proc/PID/cgroup`; the root itself by default.
    proc : path
        Where procfs is mounted; it gives the machine's CPUs and memory.
    clock : Clock, optional
        Dates the readings; the machine's monotonic clock by default.

    Raises
    ------
    TelemetryFileMissing
        If there is no hierarchy, no such group, or a file is missing. The root group of a v2 machine has no
        memory.current: use procfs for a node that is not a container.
    PressureDisabled
        If a v2 group has no pressure files.
    TelemetryMalformed
        If a file does not hold what the kernel writes.
    """

    period_s = 0.1
    """The same as for procfs."""

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
        self._slow: _SlowValues | None = None
        self._at_s = math.nan
        self._used_us = self._granted_us = self._first_used_us = 0.0

    @property
    def hierarchy(self) -> Literal["v1", "hybrid", "v2"]:
        """The detected hierarchy."""
        return self._tree.hierarchy

    def read(self) -> Counters:
        """Return the present counters; CPU time is in microseconds since the first reading.

        Raises
        ------
        TelemetryFileMissing
            If a file vanished, most likely because the container ended.
        TelemetryMalformed
            If a file does not hold what the kernel writes.
        PressureDisabled
            If the kernel does not provide the pressure.
        """
        return self.capture()()

    def capture(self, thorough: bool = True) -> Callable[[], Counters]:
        """See `TelemetrySource`.

        Only thorough captures read the limits and the pressure of memory and I/O, whose last values the others repeat,
        and check that no file was removed or replaced.
        """
        if thorough or self._slow is None:
            self._slow = self._tree.read_slow()
            contents = [file.read() for file in self._tree.fast_files]
        else:
            contents = [file.peek() for file in self._tree.fast_files]
        return partial(self._counters, self._clock.now(), self._slow, contents)

    def cpus(self) -> float:
        """Return the CPUs that quota and cpuset grant, according to the latest thorough reading."""
        if self._slow is None:
            self._slow = self._tree.read_slow()
        return self._slow.granted_cpus

    def _counters(self, now: float, slow: _SlowValues, contents: Sequence[bytes]) -> Counters:
        used_us, used, cached, pressure_us = self._tree.parse_fast(contents, slow)
        total = min(slow.memory_limit, self._machine_bytes)
        if used_us < self._used_us or math.isnan(self._at_s):
            # A new group has taken the old name: all counters restart, so that telemetry_between notices the change.
            self._granted_us, self._first_used_us = 0.0, used_us
        else:
            self._granted_us += slow.granted_cpus * 1e6 * (now - self._at_s)
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
            memory_pressure_us=slow.memory_pressure_us,
            io_pressure_us=slow.io_pressure_us,
        )

    def close(self) -> None:
        """Close the files; closing twice is fine."""
        self._files.close()


class _SlowValues(NamedTuple):
    """Values that only thorough captures read."""

    granted_cpus: float
    """CPUs granted by quota and cpuset."""
    memory_limit: float
    """Bytes; without a limit, more than any machine has."""
    memory_pressure_us: int
    io_pressure_us: int


class _FastValues(NamedTuple):
    """Values that every capture reads."""

    used_us: float
    """CPU time so far."""
    memory: int
    """Bytes in use, page cache included."""
    cached: int
    """Bytes in the page cache."""
    pressure_us: float
    """CPU pressure so far."""


class _Tree(Protocol):
    """A group in one of the hierarchies."""

    @property
    def hierarchy(self) -> Literal["v1", "hybrid", "v2"]: ...

    @property
    def fast_files(self) -> Sequence[KeptOpen]:
        """The files that every capture reads; CPU pressure comes last, close to the time of the reading."""
        ...

    def read_slow(self) -> _SlowValues:
        """Read the other files."""
        ...

    def parse_fast(self, contents: Sequence[bytes], slow: _SlowValues) -> _FastValues:
        """Parse the contents of `fast_files`."""
        ...


class _V2:
    hierarchy: Literal["v2"] = "v2"

    def __init__(self, folder: Path, machine_cpus: int, opened: ExitStack) -> None:
        self._cpu_stat, self._memory_current, self._memory_max, self._memory_stat = (
            opened.enter_context(KeptOpen(folder / name, _KIND))
            for name in ("cpu.stat", "memory.current", "memory.max", "memory.stat")
        )
        # Without the controller cpu there is no quota; without cpuset the group may use all CPUs.
        self._cpu_max = _if_any(folder / "cpu.max", opened)
        self._cpus = _Cpus(folder / "cpuset.cpus.effective", machine_cpus, opened)
        self._pressure = opened.enter_context(PressureFile(folder / "cpu.pressure", _KIND))
        self._others = [pressure_if_any(folder / f"{what}.pressure", _KIND, opened) for what in ("memory", "io")]
        self.fast_files = self._memory_current, self._memory_stat, self._cpu_stat, self._pressure

    def read_slow(self) -> _SlowValues:
        limit = math.inf if self._memory_max.read() == b"max\n" else self._memory_max.number()
        return _SlowValues(self._granted_cpus(self._cpus.number()), limit, *_totals_us(self._others))

    def parse_fast(self, contents: Sequence[bytes], slow: _SlowValues) -> _FastValues:
        in_use, memory, cpu, pressure = contents
        return _FastValues(
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
        # Runtimes that mount cpu and cpuacct together provide a link for each name.
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
        self.fast_files = self._in_use, self._memory_stat, self._usage, self._pressure or self._cpu_stat
        self._throttled_us = self._pressure_us = 0.0

    @property
    def hierarchy(self) -> Literal["v1", "hybrid"]:
        return "v1" if self._pressure is None else "hybrid"

    def read_slow(self) -> _SlowValues:
        return _SlowValues(self._granted_cpus(self._cpus.number()), self._limit.number(), *_totals_us(self._others))

    def parse_fast(self, contents: Sequence[bytes], slow: _SlowValues) -> _FastValues:
        in_use, memory, usage, pressure = contents
        return _FastValues(
            self._usage.number_in(usage) / 1e3,
            self._in_use.number_in(in_use),
            self._memory_stat.number_in(memory, b"total_cache "),
            self._throttling_pressure_us(self._cpu_stat.number_in(pressure, b"throttled_time ") / 1e3, slow)
            if self._pressure is None
            else self._pressure.some_total_us_in(pressure),
        )

    def _throttling_pressure_us(self, throttled_us: float, slow: _SlowValues) -> float:
        """Return the sum of new throttled time over the CPUs granted then: a changed quota changes no past pressure."""
        self._pressure_us += (throttled_us - self._throttled_us) / slow.granted_cpus
        self._throttled_us = throttled_us
        return self._pressure_us

    def _granted_cpus(self, cpus: int) -> float:
        if self._quota.read() == b"-1\n":
            return cpus
        quota, period = self._quota.number(), self._period.number()
        if not quota or not period:
            raise self._quota.malformed("a quota and a period above 0", f"{quota} and {period}".encode())
        return min(cpus, quota / period)


class _Cpus:
    """The number of CPUs in a cpuset, or of the machine where there is no cpuset."""

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
    """Return the group in the hierarchy that is mounted."""
    if (root / group / "cgroup.controllers").exists():
        return _V2(root / group, machine_cpus, opened)
    if (root / "cpuacct" / group).is_dir():
        return _V1(root, group, machine_cpus, opened)
    raise TelemetryFileMissing(
        f"{root} has neither {Path(group) / 'cgroup.controllers'} (cgroup v2) nor {Path('cpuacct') / group} (v1): "
        f"mount the cgroup filesystem there, or name another root and group"
    )


def _machine(proc: Path) -> tuple[int, int]:
    """Return the machine's CPUs and bytes of memory; neither changes while a node runs."""
    with KeptOpen(proc / "stat", "procfs") as stat, KeptOpen(proc / "meminfo", "procfs") as meminfo:
        cpus = cpus_in(stat)
        kilobytes = meminfo.labelled(b"\n" + meminfo.read(), b"\nMemTotal:", b" kB")
        if not kilobytes:
            raise meminfo.malformed("a MemTotal above 0 kB", b"MemTotal: 0 kB")
        return cpus, 1024 * kilobytes


def _if_any(path: Path, opened: ExitStack) -> KeptOpen | None:
    return opened.enter_context(KeptOpen(path, _KIND)) if path.exists() else None


def _totals_us(files: list[PressureFile | None]) -> tuple[int, int]:
    memory, io = (file.some_total_us() if file else 0 for file in files)
    return memory, io
