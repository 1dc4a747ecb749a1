"""A program of this machine that ends with the thread that started it, however that comes: by a crash, too.

The kernel sees to it (`PR_SET_PDEATHSIG`, Linux). It is asked by the process that becomes the program, so that nothing
runs between fork and exec: ``python -m testbed.clusters.tethered PARENT COMMAND...``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import ClusterError

_PR_SET_PDEATHSIG = 1
_END_TIMEOUT_S = 10.0
_LAST_BYTES = 2000


class Tethered:
    """The program, from here until `end`, `kill` or the end of the thread that made this.

    Parameters
    ----------
    command : sequence of str or Path
    log : Path
        What it says is added there.

    Raises
    ------
    ClusterError
        If the log cannot be written.
    """

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self._log = log
        self._name = Path(command[0]).name
        tether = [sys.executable, "-m", "testbed.clusters.tethered", str(os.getpid())]
        try:
            with log.open("ab") as stream:
                # Its own session: Ctrl-C is ours, and it is told to end then.
                self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                    [*tether, *map(str, command)],
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ClusterError(f"{self._name} cannot be run with the log {log}: {error}") from error

    @property
    def pid(self) -> int:
        """Of the program itself."""
        return self._process.pid

    def require_alive(self) -> None:
        """Raise ClusterError, with the end of its log, if it has ended."""
        code = self._process.poll()
        if code is not None:
            last = self._log.read_bytes()[-_LAST_BYTES:].decode(errors="replace")
            raise ClusterError(f"{self._name} has ended with {code}; the end of {self._log.name}:\n{last}")

    def end(self) -> None:
        """Let it end, by force if it does not within ten seconds; ending twice is fine."""
        self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Become the program."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it has ended before the kernel was asked
        sys.exit(f"{command[0]} is not run: who started it has ended")
    try:
        os.execvp(command[0], command)  # noqa: S606 - our own arguments
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
