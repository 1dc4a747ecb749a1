"""Processes that stand for pods where no container runtime tells of any: those whose command line matches.

A count by looking, not a subscription: what lives shorter than the time between two looks may be missed. The agent on
a cluster node learns of its pods from container events instead.
"""

from __future__ import annotations

import re
from pathlib import Path

from carico.errors import TelemetryFileMissing


class MatchingProcesses:
    """Counts the processes whose command line matches a pattern.

    The watching process itself does not count, nor does any process that it descends from: the shell, `sudo` or
    `timeout` that started it has the pattern in its command line too. Threads do not count, and kernel threads and
    zombies have no command line.

    Parameters
    ----------
    pattern : re.Pattern
        Searched in the command line, its arguments joined by blanks; `^` is where it starts.
    root : path
        Where procfs is mounted.
    """

    def __init__(self, pattern: re.Pattern[str], root: str | Path = "/proc") -> None:
        self.pattern = pattern
        self.root = Path(root)

    def count(self) -> int:
        """Return how many there are now; one that vanishes while being looked at does not count.

        Raises
        ------
        TelemetryFileMissing
            If `root` cannot be listed.
        """
        try:
            lines = {int(name): self._command_line(name) for name in self._names()}
        except OSError as error:
            raise TelemetryFileMissing(
                f"{self.root} cannot be listed ({error.strerror}): a mounted procfs is needed; check the root folder"
            ) from error
        # Without a command line there is nothing to match, even for a pattern that matches the empty string.
        matching = {pid for pid, line in lines.items() if line and self.pattern.search(line)}
        return len(matching - self._own_line()) if matching else 0

    def _names(self) -> list[str]:
        return [entry.name for entry in self.root.iterdir() if entry.name.isdigit()]

    def _command_line(self, name: str) -> str:
        return self._read(name, "cmdline").replace("\0", " ").rstrip()

    def _own_line(self) -> set[int]:
        """The watching process and all it descends from, as numbered under `root` (which may be the host's procfs)."""
        line: set[int] = set()
        name = "self"
        while status := self._read(name, "status"):
            fields = dict(entry.split(":", 1) for entry in status.splitlines() if ":" in entry)
            line.add(int(fields["Pid"]))
            name = fields["PPid"].strip()
        return line

    def _read(self, name: str, file: str) -> str:
        try:
            # Every second for every process of the machine: less than half of what Path.read_text takes.
            with open(f"{self.root}/{name}/{file}", "rb", buffering=0) as opened:  # noqa: PTH123
                return opened.readall().decode(errors="replace")
        except OSError:
            # Gone in between, or not ours to see: no command line, so no match.
            return ""
