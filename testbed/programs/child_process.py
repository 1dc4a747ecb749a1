"""A program that runs beside this process and ends with the thread that started it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import ClusterError
from testbed.programs.launcher import ending_with_parent

_END_TIMEOUT_S = 10.0
_LAST_BYTES = 2000


class ChildProcess:
    """A program that runs until `end`, `kill` or the end of the thread that made this object.

    Parameters
    ----------
    command : sequence of str or Path
    log : Path
        The program's output is appended to this file.

    Raises
    ------
    ClusterError
        If the log cannot be written.
    """

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self._log = log
        self._name = Path(command[0]).name
        try:
            with log.open("ab") as stream:
                # The program gets a session of its own: Ctrl-C reaches only us, and we end the program.
                self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                    ending_with_parent(command),
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ClusterError(f"{self._name} cannot be run with the log {log}: {error}") from error

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._process.pid

    def require_alive(self) -> None:
        """Check that the program runs; raises ClusterError with the end of its log if it has ended."""
        code = self._process.poll()
        if code is not None:
            last = self._log.read_bytes()[-_LAST_BYTES:].decode(errors="replace")
            raise ClusterError(f"{self._name} has ended with {code}; the end of {self._log.name}:\n{last}")

    def end(self) -> None:
        """Ask the program to end, and kill it if it does not within ten seconds; may be called twice."""
        self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the program."""
        self._process.kill()
        self._process.wait()
