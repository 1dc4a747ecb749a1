"""Test kit: a clock that tests move, and a procfs made of ordinary files.

For tests of CARICO and of programs built on it; nothing in the package imports it. With ``clock.on_advance`` set to
``FakeProc.elapse`` the fake machine's counters follow the fake time, so no test needs to sleep.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from carico.errors import InvalidInput

_JIFFIES_PER_S = 100


class ManualClock:
    """A `Clock` whose time passes only when a test sleeps on it or moves it.

    Parameters
    ----------
    now : float
        The time it starts at, seconds.

    Examples
    --------
    >>> clock = ManualClock()
    >>> clock.sleep_until(2.5)
    >>> clock.now()
    2.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self.on_advance: Callable[[float], None] = lambda seconds: None
        """Called with the number of seconds that are about to pass."""

    def now(self) -> float:
        """Return the fake time, seconds."""
        return self._now

    def sleep_until(self, at: float) -> None:
        """Move to the time `at`, unless it has passed."""
        if at > self._now:
            self.on_advance(at - self._now)
            self._now = at

    def advance(self, seconds: float) -> None:
        """Let time pass, for instance while the code under test is busy.

        Raises
        ------
        InvalidInput
            If time would run backwards.
        """
        if not seconds >= 0:
            raise InvalidInput(f"time only passes: at least 0 s are needed, got {seconds}")
        self.sleep_until(self._now + seconds)


class FakeProc:
    """A folder with the procfs files that CARICO reads, of a machine whose load the test sets.

    Parameters
    ----------
    root : path
        The folder, empty or to be created.
    cpus : int
        CPUs of the machine.
    memory_bytes : int
        Memory of the machine.

    Examples
    --------
    >>> import tempfile
    >>> from carico.telemetry.counters import telemetry_between
    >>> from carico.telemetry.procfs import ProcfsSource
    >>> clock = ManualClock()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     machine = FakeProc(folder)
    ...     clock.on_advance = machine.elapse
    ...     with ProcfsSource(machine.root, clock) as source:
    ...         before = source.read()
    ...         machine.cpu_utilisation = 0.75
    ...         clock.advance(4.0)
    ...         telemetry = telemetry_between(before, source.read())
    >>> float(telemetry.cpu_utilisation)
    0.75
    """

    def __init__(self, root: str | Path, cpus: int = 4, memory_bytes: int = 16 * 2**30) -> None:
        self.root = Path(root)
        self.cpus = cpus
        self.memory_bytes = memory_bytes
        self.cpu_utilisation = 0.0
        """In [0, 1]. `elapse` uses this load and the ones below; a test may set them at any time."""
        self.cpu_pressure = self.memory_pressure = self.io_pressure = 0.0
        self.memory_utilisation = 0.1
        self.reads_per_s = self.read_s = 0.0
        """Reads of 128 KiB from the disk per second, and how long each of them takes."""
        self._busy_s = self._idle_s = 0.0
        self._waited_s = {"cpu": 0.0, "memory": 0.0, "io": 0.0}
        self._reads, self._reading_s = 1000.0, 1.0
        (self.root / "pressure").mkdir(parents=True, exist_ok=True)
        self.elapse(0.0)

    def elapse(self, seconds: float) -> None:
        """Advance the counters by this time under the present load."""
        self._busy_s += self.cpu_utilisation * self.cpus * seconds
        self._idle_s += (1.0 - self.cpu_utilisation) * self.cpus * seconds
        busy, idle = round(_JIFFIES_PER_S * self._busy_s), round(_JIFFIES_PER_S * self._idle_s)
        self.write("stat", f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\nctxt 1\n")
        total_kb = self.memory_bytes // 1024
        free_kb = round((1.0 - self.memory_utilisation) * total_kb)
        self.write(
            "meminfo",
            f"MemTotal: {total_kb:>15} kB\nMemFree:  {free_kb:>15} kB\nMemAvailable: {free_kb:>11} kB\n"
            f"Buffers:  {0:>15} kB\nCached:   {0:>15} kB\nSwapCached: {0:>13} kB\n",
        )
        self._reads += self.reads_per_s * seconds
        self._reading_s += self.reads_per_s * self.read_s * seconds
        reads, milliseconds = round(self._reads), round(1000 * self._reading_s)
        counters = f"{reads} 0 {256 * reads} {milliseconds} 0 0 0 0 0 {milliseconds} {milliseconds}\n"
        self.write("diskstats", f"   8       0 sda {counters}   8       1 sda1 {counters} 253       0 dm-0 {counters}")
        for what in self._waited_s:
            self._waited_s[what] += getattr(self, f"{what}_pressure") * seconds
            self.write(
                f"pressure/{what}",
                f"some avg10=0.00 avg60=0.00 avg300=0.00 total={round(1e6 * self._waited_s[what])}\n"
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            )

    def write(self, file: str, content: str) -> None:
        """Change a file's content in place, as the kernel does: a process that has the file open reads the new one."""
        data = content.encode()
        descriptor = os.open(self.root / file, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, data, 0)
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)

    def remove(self, file: str) -> None:
        """Remove a file; a process that has it open goes on reading the old one."""
        (self.root / file).unlink()

    def start_process(self, pid: int, *arguments: str, parent: int = 1, is_self: bool = False) -> None:
        """Add a process with this command line; `is_self` makes it the one that ``/proc/self`` names."""
        folder = self.root / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes(b"".join(argument.encode() + b"\0" for argument in arguments))
        (folder / "status").write_text(f"Name:\tfake\nPid:\t{pid}\nPPid:\t{parent}\n")
        if is_self:
            (self.root / "self").symlink_to(str(pid))

    def end_process(self, pid: int) -> None:
        """Remove a process."""
        shutil.rmtree(self.root / str(pid))
