"""Files of the kernel's pseudo-filesystems, kept open and read from the start every time.

A reading costs two system calls and no path look-up; it is complete, or an error. `procfs` and `cgroup` know what the
files mean.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from carico.errors import PressureDisabled, TelemetryError, TelemetryFileMissing, TelemetryMalformed

# The first lines of every file hold all that is needed.
_BYTES_READ = 4096


class KeptOpen:
    """A file that is opened once and read often.

    Parameters
    ----------
    path : path
        The file.
    kind : str
        The file's filesystem, as in "procfs", for messages.

    Raises
    ------
    TelemetryFileMissing
        If the file cannot be opened.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self._kind = kind
        try:
            # The files are never links where the kernel makes them: a link would lead to something else.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise self.unreadable(error) from error

    def read(self, size: int = _BYTES_READ) -> bytes:
        """Return the first bytes of the file's present content.

        Raises
        ------
        TelemetryFileMissing
            If the file vanished, was replaced or can no longer be read.
        """
        content = self.peek(size)
        if os.fstat(self._descriptor).st_nlink == 0:
            # The descriptor outlives the name, and would keep returning old content.
            raise TelemetryFileMissing(f"{self.path} was removed or replaced while it was being read: start again")
        return content

    def peek(self, size: int = _BYTES_READ) -> bytes:
        """Return the same as `read` without checking whether the file was removed or replaced."""
        try:
            return os.pread(self._descriptor, size, 0)
        except OSError as error:
            raise self.unreadable(error) from error

    def number(self) -> int:
        """Read the file and return the whole number that is its first line; raises as `read` and `labelled` do."""
        return self.number_in(self.read())

    def number_in(self, content: bytes, label: bytes = b"") -> int:
        """Return the whole number after `label` at the start of a line, by default of the first line."""
        return self.labelled(b"\n" + content, b"\n" + label)

    def labelled(self, content: bytes, label: bytes, end: bytes = b"\n") -> int:
        """Return the whole number between `label` and `end`; without the end, the number may be incomplete: an error.

        Raises
        ------
        TelemetryMalformed
            If there is no such number.
        """
        _, found, rest = content.partition(label)
        digits, ended, _ = rest.partition(end)
        if not ended or not digits.strip().isdigit():
            wanted = f"{label.decode().strip()} N{end.decode()}".strip()
            raise self.malformed(f'"{wanted}"', (label + rest if found else content).strip().partition(b"\n")[0])
        return int(digits)

    def unreadable(self, error: OSError) -> TelemetryError:
        """Return the error to raise when the file cannot be opened or read."""
        return TelemetryFileMissing(
            f"{self.path} cannot be read ({error.strerror}): "
            f"a mounted {self._kind} is needed whose files this user may read; check the root folder"
        )

    def malformed(self, wanted: str, seen: bytes) -> TelemetryMalformed:
        """Return the error to raise when the file does not hold what the kernel writes."""
        shown = seen[:80].decode("ascii", "backslashreplace")
        return TelemetryMalformed(
            f"{self.path} must hold {wanted}, it holds {shown!r}: check that the root folder is a {self._kind} of Linux"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The system may reuse the descriptor's number; -1 makes a late read fail.
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class PressureFile(KeptOpen):
    """A pressure file, which is missing where the kernel lacks PSI and unreadable where PSI is switched off.

    Raises
    ------
    PressureDisabled
        If the kernel offers no pressure.
    """

    def some_total_us(self) -> int:
        """Return how long some task has waited so far, microseconds."""
        return self.some_total_us_in(self.read())

    def some_total_us_in(self, content: bytes) -> int:
        """Return the same number from content that was read before."""
        line, ended, _ = content.partition(b"\n")
        if not line.startswith(b"some "):
            raise self.malformed('a first line "some ... total=N"', line)
        return self.labelled(line + ended, b" total=")

    def unreadable(self, error: OSError) -> TelemetryError:
        """Distinguish missing pressure information from other failures."""
        if error.errno not in (errno.ENOENT, errno.EOPNOTSUPP):
            return super().unreadable(error)
        return PressureDisabled(
            f"{self.path} cannot be read ({error.strerror}): pressure stall information is needed; "
            f"boot the kernel with the parameter psi=1 (it must be 4.20 or newer and built with CONFIG_PSI=y), "
            f"and let cgroup.pressure of a cgroup be 1"
        )


def pressure_if_any(path: Path, kind: str, opened: ExitStack) -> PressureFile | None:
    """Return the pressure file, which `opened` will close, or None where the kernel does not offer this pressure."""
    with ExitStack() as trial:
        try:
            file = trial.enter_context(PressureFile(path, kind))
            file.read()  # some kernels open the file and refuse to read it
        except PressureDisabled:
            return None
        opened.push(trial.pop_all())
        return file
