"""Telemetry of this machine from procfs: `stat`, `meminfo`, `pressure/` (thesis §4.2.1) and `diskstats`.

This module only reads; `counters` computes the usage between two readings. The files stay open, so that a reading costs
one or two system calls per file and no path look-up. A reading is complete, or an error. CARICO does not use the
pressure of memory and I/O: it is 0 if the kernel does not provide it. Only thorough captures read it, and what was read
from disks, which is 0 if there is no such file.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from carico.clock import Clock, SystemClock
from carico.telemetry.counters import Counters
from carico.telemetry.disks import NO_DISKS, DiskCounters, disk_stats_if_any
from carico.telemetry.files import KeptOpen, PressureFile, pressure_if_any
from carico.telemetry.source import TelemetrySource

_KIND = "procfs"
# user, nice, system, idle, iowait, irq, softirq, steal. The next two fields, guest and guest_nice, are already part of
# user and nice (proc(5)): "all fields" of the thesis's formula would count them twice.
_CPU_MODES = 8
_ALL_CPUS_BYTES = 2**20
"""Enough for the lines of all CPUs in /proc/stat, about 100 bytes each."""


class ProcfsSource(TelemetrySource):
    """Reads a node's counters from procfs.

    Parameters
    ----------
    root : path
        Where procfs is mounted; in a container, where the host's procfs is mounted.
    clock : Clock, optional
        Dates the readings; the machine's monotonic clock by default.

    Raises
    ------
    TelemetryFileMissing
        If a file cannot be opened, most likely because `root` is not a procfs.
    PressureDisabled
        If the kernel offers no pressure stall information.

    Examples
    --------
    >>> with ProcfsSource() as source:
    ...     counters = source.read()
    >>> counters.cpu_idle <= counters.cpu_total
    True
    """

    period_s = 0.1
    """The thesis's 10 Hz (§4.2.1)."""

    def __init__(self, root: str | Path = "/proc", clock: Clock | None = None) -> None:
        self.root = Path(root)
        self._clock = clock or SystemClock()
        # If a file cannot be opened, the stack closes those that are open already.
        with ExitStack() as opened:
            self._stat = opened.enter_context(KeptOpen(self.root / "stat", _KIND))
            self._meminfo = opened.enter_context(KeptOpen(self.root / "meminfo", _KIND))
            self._pressure = opened.enter_context(PressureFile(self.root / "pressure" / "cpu", _KIND))
            self._memory_pressure = pressure_if_any(self.root / "pressure" / "memory", _KIND, opened)
            self._io_pressure = pressure_if_any(self.root / "pressure" / "io", _KIND, opened)
            self._disk_stats = disk_stats_if_any(self.root / "diskstats", _KIND, opened)
            self._files = opened.pop_all()
        self._memory_pressure_us = self._io_pressure_us = 0
        self._disks = NO_DISKS

    def read(self) -> Counters:
        """Return the present counters.

        Raises
        ------
        TelemetryFileMissing
            If a file vanished, was replaced or can no longer be read.
        TelemetryMalformed
            If a file does not hold what the kernel writes.
        PressureDisabled
            If the kernel does not provide the pressure.
        """
        return self.capture()()

    def capture(self, thorough: bool = True) -> Callable[[], Counters]:
        """See `TelemetrySource`.

        Only thorough captures read the disks and the pressure of memory and I/O, whose last values the others repeat,
        and check that no file was removed or replaced.
        """
        if thorough:
            stat, meminfo = self._stat.read(), self._meminfo.read()
            self._memory_pressure_us = self._memory_pressure.some_total_us() if self._memory_pressure else 0
            self._io_pressure_us = self._io_pressure.some_total_us() if self._io_pressure else 0
            self._disks = self._disk_stats.counters() if self._disk_stats else NO_DISKS
            pressure = self._pressure.read()
        else:
            stat, meminfo, pressure = self._stat.peek(), self._meminfo.peek(), self._pressure.peek()
        # Taken right after the pressure, whose growth is divided by the time between two readings.
        now = self._clock.now()
        return partial(
            self._counters,
            now,
            stat=stat,
            meminfo=meminfo,
            pressure=pressure,
            memory_pressure_us=self._memory_pressure_us,
            io_pressure_us=self._io_pressure_us,
            disks=self._disks,
        )

    def _counters(
        self,
        at_s: float,
        stat: bytes,
        meminfo: bytes,
        pressure: bytes,
        memory_pressure_us: int,
        io_pressure_us: int,
        disks: DiskCounters,
    ) -> Counters:
        cpu_total, cpu_idle, cpu_stolen = _cpu_times(self._stat, stat)
        total, free, buffers, cached = _memory(self._meminfo, meminfo)
        return Counters(
            at_s=at_s,
            cpu_total=cpu_total,
            cpu_idle=cpu_idle,
            cpu_pressure_us=self._pressure.some_total_us_in(pressure),
            memory_total=total,
            memory_free=free,
            memory_buffers=buffers,
            memory_cached=cached,
            memory_pressure_us=memory_pressure_us,
            io_pressure_us=io_pressure_us,
            disk_reading_ms=disks.reading_ms,
            disk_read_work=disks.read_work,
            cpu_stolen=cpu_stolen,
        )

    def cpus(self) -> float:
        """Return the number of CPUs that are online now."""
        return cpus_in(self._stat)

    def close(self) -> None:
        """Close the files; closing twice is fine."""
        self._files.close()


def cpus_in(stat: KeptOpen) -> int:
    """Return the number of CPUs in `/proc/stat`, which lists those that are online.

    Raises
    ------
    TelemetryFileMissing, TelemetryMalformed
        If the file cannot be read, or lists no CPU.
    """
    lines = stat.read(_ALL_CPUS_BYTES).splitlines()
    cpus = sum(line.startswith(b"cpu") and not line.startswith(b"cpu ") for line in lines)
    if not cpus:
        raise stat.malformed('a line "cpuN ..." for every CPU', lines[0] if lines else b"")
    return cpus


def _cpu_times(file: KeptOpen, content: bytes) -> tuple[int, int, int]:
    """Return the jiffies in all modes, those in idle modes, and those that were stolen."""
    line, ended, _ = content.partition(b"\n")
    label, *fields = line.split()[: 1 + _CPU_MODES] or [b""]
    if not ended or label != b"cpu" or len(fields) < _CPU_MODES or not all(map(bytes.isdigit, fields)):
        raise file.malformed(f'a first line "cpu" with at least {_CPU_MODES} numbers', line)
    modes = [int(field) for field in fields]
    return sum(modes), modes[3] + modes[4], modes[7]


def _memory(file: KeptOpen, content: bytes) -> tuple[int, int, int, int]:
    """Return bytes of memory: total, free, in buffers and in the page cache."""
    content = b"\n" + content
    total = file.labelled(content, b"\nMemTotal:", b" kB")
    if total == 0:
        raise file.malformed("a MemTotal above 0 kB", content.strip())
    free, buffers, cached = (
        file.labelled(content, label, b" kB") for label in (b"\nMemFree:", b"\nBuffers:", b"\nCached:")
    )
    return 1024 * total, 1024 * free, 1024 * buffers, 1024 * cached
