"""Files of the kernel's pseudo-filesystems: kept open, read from the start every time, complete or an error.

A reading costs two system calls and no path look-up. What the files mean is said in `procfs` and `cgroup`.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from carico.errors import PressureDisabled, TelemetryError, TelemetryFileMissing, TelemetryMalformed

# What is needed stands in the first lines of all of them.
_BYTES_READ = 4096


class KeptOpen:
    """One file, opened once and read often.

    Parameters
    ----------
    path : path
        The file.
    kind : str
        What it is part of ("procfs"), for messages.

    Raises
    ------
    TelemetryFileMissing
        If it cannot be opened.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self._kind = kind
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self.unreadable(error) from error

    def read(self, size: int = _BYTES_READ) -> bytes:
        """Return the first bytes of the file as it is now.

        Raises
        ------
        TelemetryFileMissing
            If it vanished, was replaced or can no longer be read.
        """
        content = self.peek(size)
        if os.fstat(self._descriptor).st_nlink == 0:
            # The descriptor outlives the name and would go on telling the past.
            raise TelemetryFileMissing(f"{self.path} was removed or replaced while it was being read: start again")
        return content

    def peek(self, size: int = _BYTES_READ) -> bytes:
        """Return the same without looking whether the file was removed or replaced."""
        try:
            return os.pread(self._descriptor, size, 0)
        except OSError as error:
            raise self.unreadable(error) from error

    def number(self, label: bytes = b"") -> int:
        """Return the whole number that follows `label` at the beginning of a line, the first line without one.

        Raises
        ------
        TelemetryFileMissing
            As `read`.
        TelemetryMalformed
            If there is none.
        """
        return self.number_in(self.read(), label)

    def number_in(self, content: bytes, label: bytes = b"") -> int:
        """Return the same of what was read before."""
        return self.labelled(b"\n" + content, b"\n" + label)

    def labelled(self, content: bytes, label: bytes, end: bytes = b"\n") -> int:
        """Return the whole number between `label` and `end`; without the end it may have been cut off.

        Raises
        ------
        TelemetryMalformed
            If there is none.
        """
        _, found, rest = content.partition(label)
        digits, ended, _ = rest.partition(end)
        if not ended or not digits.strip().isdigit():
            wanted = f"{label.decode().strip()} N{end.decode()}".strip()
            raise self.malformed(f'"{wanted}"', (label + rest if found else content).strip().partition(b"\n")[0])
        return int(digits)

    def unreadable(self, error: OSError) -> TelemetryError:
        """Return what to raise where the system refuses to open or read it."""
        return TelemetryFileMissing(
            f"{self.path} cannot be read ({error.strerror}): "
            f"a mounted {self._kind} is needed whose files this user may read; check the root folder"
        )

    def malformed(self, wanted: str, seen: bytes) -> TelemetryMalformed:
        """Return what to raise where it does not hold what the kernel writes."""
        shown = seen[:80].decode("ascii", "backslashreplace")
        return TelemetryMalformed(
            f"{self.path} must hold {wanted}, it holds {shown!r}: check that the root folder is a {self._kind} of Linux"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The number may soon be another file's: it is forgotten, so that a late read fails.
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class PressureFile(KeptOpen):
    """A pressure file: kernels without PSI have none, and those that were told to leave it out refuse to read it.

    Raises
    ------
    PressureDisabled
        If there is no pressure to read.
    """

    def some_total_us(self) -> int:
        """Return the microseconds, so far, in which some task waited."""
        return self.some_total_us_in(self.read())

    def some_total_us_in(self, content: bytes) -> int:
        """Return the same of what was read before."""
        line, ended, _ = content.partition(b"\n")
        if not line.startswith(b"some "):
            raise self.malformed('a first line "some ... total=N"', line)
        return self.labelled(line + ended, b" total=")

    def unreadable(self, error: OSError) -> TelemetryError:
        """Tell a pressure that is switched off from a file that is out of order."""
        if error.errno not in (errno.ENOENT, errno.EOPNOTSUPP):
            return super().unreadable(error)
        return PressureDisabled(
            f"{self.path} cannot be read ({error.strerror}): pressure stall information is needed; "
            f"boot the kernel with the parameter psi=1 (it must be 4.20 or newer and built with CONFIG_PSI=y), "
            f"and let cgroup.pressure of a cgroup be 1"
        )


def pressure_if_any(path: Path, kind: str, opened: ExitStack) -> PressureFile | None:
    """Return the pressure file, which `opened` will close, or None where the kernel does not offer that one."""
    with ExitStack() as trial:
        try:
            file = trial.enter_context(PressureFile(path, kind))
            file.read()  # some kernels open it and refuse then
        except PressureDisabled:
            return None
        opened.push(trial.pop_all())
        return file
