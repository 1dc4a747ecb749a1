"""A program of this machine that runs beside this process and ends with the thread that started it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import ClusterError
from testbed.programs.tether import tied

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
        try:
            with log.open("ab") as stream:
                # Its own session: Ctrl-C is ours, and it is told to end then.
                self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                    tied(command),
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
