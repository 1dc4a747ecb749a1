"""Telemetry of this machine from procfs: `/proc/stat`, `/proc/meminfo` and `/proc/pressure/cpu` (thesis §4.2.1).

A source that reads; what the numbers mean between two readings is in `counters`. The three files stay open and every
reading starts at offset 0, so that a sample costs three system calls and no path look-up; a reading is complete or
an error, never half of each.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from carico.clock import Clock, SystemClock
from carico.errors import PressureDisabled, TelemetryFileMissing, TelemetryMalformed
from carico.telemetry.counters import Counters

# What is needed stands in the first lines: the sum over CPUs opens stat, the four sums open meminfo.
_BYTES_READ = 4096
# user, nice, system, idle, iowait, irq, softirq, steal. The two fields that follow, guest and guest_nice, are already
# contained in user and nice (proc(5)): "all fields" of the thesis's formula would count them twice.
_CPU_MODES = 8


class ProcfsSource:
    """Reads a node's counters from procfs.

    Parameters
    ----------
    root : path
        Where procfs is mounted; in a container that is to see its host, the host's.
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

    def __init__(self, root: str | Path = "/proc", clock: Clock | None = None) -> None:
        self.root = Path(root)
        self._clock = clock or SystemClock()
        # Files opened before one that fails are closed again.
        with ExitStack() as opened:
            self._stat = opened.enter_context(_KeptOpen(self.root / "stat"))
            self._meminfo = opened.enter_context(_KeptOpen(self.root / "meminfo"))
            self._pressure = opened.enter_context(_KeptOpenPressure(self.root / "pressure" / "cpu"))
            self._files = opened.pop_all()

    def read(self) -> Counters:
        """Return the counters of now.

        Raises
        ------
        TelemetryFileMissing
            If a file vanished, was replaced or can no longer be read.
        TelemetryMalformed
            If a file does not hold what the kernel writes.
        PressureDisabled
            If the kernel refuses to tell the pressure.
        """
        cpu_total, cpu_idle = _cpu_times(self._stat)
        total, free, buffers, cached = _memory(self._meminfo)
        pressure_us = _some_total(self._pressure)
        # Dated by the pressure, whose change is divided by the time between two readings.
        return Counters(
            at_s=self._clock.now(),
            cpu_total=cpu_total,
            cpu_idle=cpu_idle,
            cpu_pressure_us=pressure_us,
            memory_total=total,
            memory_free=free,
            memory_buffers=buffers,
            memory_cached=cached,
        )

    def close(self) -> None:
        """Close the files; closing twice is fine."""
        self._files.close()

    def __enter__(self) -> ProcfsSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _KeptOpen:
    """One file of procfs, opened once and read often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self.unreadable(error) from error

    def read(self) -> bytes:
        """The first bytes of the file as it is now."""
        try:
            content = os.pread(self._descriptor, _BYTES_READ, 0)
            links = os.fstat(self._descriptor).st_nlink
        except OSError as error:
            raise self.unreadable(error) from error
        if links == 0:
            # The descriptor outlives the name and would go on telling the past.
            raise TelemetryFileMissing(f"{self.path} was removed or replaced while it was being read: start again")
        return content

    def unreadable(self, error: OSError) -> TelemetryFileMissing | PressureDisabled:
        return TelemetryFileMissing(
            f"{self.path} cannot be read ({error.strerror}): "
            f"a mounted procfs is needed whose files this user may read; check the root folder"
        )

    def malformed(self, wanted: str, seen: bytes) -> TelemetryMalformed:
        shown = seen[:80].decode("ascii", "backslashreplace")
        return TelemetryMalformed(
            f"{self.path} must hold {wanted}, it holds {shown!r}: check that the root folder is a procfs of Linux"
        )

    def __enter__(self) -> _KeptOpen:
        return self

    def __exit__(self, *_: object) -> None:
        # The number may soon be another file's: it is forgotten, so that a late read fails.
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class _KeptOpenPressure(_KeptOpen):
    """A pressure file: kernels without PSI have none, and older ones started with psi=0 refuse to read it."""

    def unreadable(self, error: OSError) -> TelemetryFileMissing | PressureDisabled:
        if error.errno not in (errno.ENOENT, errno.EOPNOTSUPP):
            return super().unreadable(error)
        return PressureDisabled(
            f"{self.path} cannot be read ({error.strerror}): pressure stall information is needed; "
            f"boot the kernel with the parameter psi=1 (it must be 4.20 or newer and built with CONFIG_PSI=y)"
        )


def _cpu_times(file: _KeptOpen) -> tuple[int, int]:
    """Jiffies in all modes and the idle part of them."""
    line, ended, _ = file.read().partition(b"\n")
    label, *fields = line.split()[: 1 + _CPU_MODES] or [b""]
    if not ended or label != b"cpu" or len(fields) < _CPU_MODES or not all(map(bytes.isdigit, fields)):
        raise file.malformed(f'a first line "cpu" with at least {_CPU_MODES} numbers', line)
    modes = [int(field) for field in fields]
    return sum(modes), modes[3] + modes[4]


def _memory(file: _KeptOpen) -> tuple[int, int, int, int]:
    """Bytes in all, free, in buffers and in the page cache."""
    content = b"\n" + file.read()
    total = _labelled(file, content, b"\nMemTotal:", b" kB")
    if total == 0:
        raise file.malformed("a MemTotal above 0 kB", content.strip())
    free, buffers, cached = (
        _labelled(file, content, label, b" kB") for label in (b"\nMemFree:", b"\nBuffers:", b"\nCached:")
    )
    return 1024 * total, 1024 * free, 1024 * buffers, 1024 * cached


def _some_total(file: _KeptOpen) -> int:
    """Microseconds since boot in which some task waited for a CPU."""
    line, ended, _ = file.read().partition(b"\n")
    if not line.startswith(b"some "):
        raise file.malformed('a first line "some ... total=N"', line)
    return _labelled(file, line + ended, b" total=", b"\n")


def _labelled(file: _KeptOpen, content: bytes, label: bytes, end: bytes) -> int:
    """The whole number between `label` and `end`; without the end it may have been cut off."""
    _, found, rest = content.partition(label)
    digits, ended, _ = rest.partition(end)
    if not ended or not digits.strip().isdigit():
        wanted = f"{label.decode().strip()} N{end.decode()}".rstrip()
        raise file.malformed(f'"{wanted}"', (label + rest if found else content).strip().partition(b"\n")[0])
    return int(digits)
