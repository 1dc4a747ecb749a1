"""Processes that stand for pods where there is no container runtime: those whose command line matches.

Processes are counted by looking, not by a subscription, so a process that ends before the next look may be missed. The
agent on a cluster node learns of its pods from events instead.
"""

from __future__ import annotations

import re
from pathlib import Path

from carico.errors import TelemetryFileMissing


class MatchingProcesses:
    """The processes whose command line matches a pattern.

    The watching process itself does not count, nor does any process that it descends from: the shell, `sudo` or
    `timeout` that started it has the pattern in its command line too. Threads do not count, and kernel threads and
    zombies have no command line.

    Parameters
    ----------
    pattern : re.Pattern
        Searched in the command line, whose arguments are joined by blanks; `^` matches its start.
    root : path
        Where procfs is mounted.
    """

    def __init__(self, pattern: re.Pattern[str], root: str | Path = "/proc") -> None:
        self.pattern = pattern
        self.root = Path(root)

    def count(self) -> int:
        """Return how many run now, see `running`."""
        return len(self.running())

    def running(self) -> set[int]:
        """Return the ids of the processes that run now; a process that vanishes during the look does not count.

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
        return matching - self._ancestry() if matching else set()

    def _names(self) -> list[str]:
        return [entry.name for entry in self.root.iterdir() if entry.name.isdigit()]

    def _command_line(self, name: str) -> str:
        return self._read(name, "cmdline").replace("\0", " ").rstrip()

    def _ancestry(self) -> set[int]:
        """The watching process and all its ancestors, by their ids under `root` (which may be the host's procfs)."""
        ancestry: set[int] = set()
        name = "self"
        while status := self._read(name, "status"):
            fields = dict(entry.split(":", 1) for entry in status.splitlines() if ":" in entry)
            ancestry.add(int(fields["Pid"]))
            name = fields["PPid"].strip()
        return ancestry

    def _read(self, name: str, file: str) -> str:
        try:
            # Read every second for every process of the machine: Path.read_text takes more than twice as long.
            with open(f"{self.root}/{name}/{file}", "rb", buffering=0) as opened:  # noqa: PTH123
                return opened.readall().decode(errors="replace")
        except OSError:
            # The process is gone, or not readable: no command line, so no match.
            return ""
