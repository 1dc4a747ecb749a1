"""The repetition log: a file to which a run appends every repetition, as a line of JSON, as soon as it is finished.

All processes of a run share the log. However a process ends, the finished repetitions are in the log: readers skip an
entry that a crash has cut off, and the next entry begins on a new line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from testbed.errors import ResultsError, UnusableFile
from testbed.results.files import decode_versioned
from testbed.results.locks import locked
from testbed.results.run import SchedulerUsed
from testbed.results.schema import SCHEMA_VERSION, Repetition


class LogEntry(msgspec.Struct, frozen=True):
    """A finished repetition."""

    key: str
    """A hash of everything that was asked for: equal keys mean equal repetitions."""
    workload_sha256: str
    """A hash of the scenario's canonical JSON."""
    repetition: Repetition
    scheduler: SchedulerUsed | None = None
    schema_version: int = SCHEMA_VERSION


class _Key(msgspec.Struct):
    key: str


def cut_off_notice(cut_off: int) -> str:
    """Return a message for the user about entries that are not whole.

    Examples
    --------
    >>> cut_off_notice(1)
    'repetitions left out, because a crash cut them off: 1'
    """
    return f"repetitions left out, because a crash cut them off: {cut_off}"


class RepetitionLog:
    """Appends to a repetition log and looks up its entries; any number of processes may do so at the same time.

    Parameters
    ----------
    path : Path
        The file; it appears with the first entry.
    lock : Path
        The file that is locked while one process appends; its folder exists.
    """

    def __init__(self, path: Path, lock: Path) -> None:
        self.path = path
        self._lock = lock
        self._seen = 0
        """How much of the file, in bytes, `_places` covers."""
        self._places: dict[str, int] = {}

    def append(self, entry: LogEntry) -> None:
        """Append an entry; if that fails half-way, readers skip what was written.

        Raises
        ------
        ResultsError
            If the entry cannot be written.
        """
        content = msgspec.json.encode(entry) + b"\n"
        try:
            with locked(self._lock), self.path.open("ab+", buffering=0) as file:
                if file.tell():
                    file.seek(-1, 2)
                    if file.read(1) != b"\n":
                        content = b"\n" + content
                while content:
                    content = content[file.write(content) :]
        except OSError as error:
            raise ResultsError(
                f"cannot write a finished repetition to {self.path}: {error.strerror}; make room for it"
            ) from error

    def find(self, key: str) -> Repetition | None:
        """Return the first repetition with that key; None if no process has finished it yet."""
        if key not in self._places:
            self._look_for_new()
        if key not in self._places:
            return None
        with self.path.open("rb") as file:
            file.seek(self._places[key])
            return self._decoded(file.readline()).repetition

    def find_all(self, key: str) -> list[Repetition]:
        """Return all whole repetitions with that key, in the order in which they were written."""
        return [entry.repetition for entry in self.read()[0] if entry.key == key]

    def read(self) -> tuple[list[LogEntry], int]:
        """Return all entries that are whole, and the number of those that are not.

        Raises
        ------
        UnusableFile
            If the file cannot be read, or comes from a newer version.
        """
        entries, cut_off = [], 0
        for _, raw in self._raw_from(0):
            if _key_of(raw) is None:
                cut_off += 1
            else:
                entries.append(self._decoded(raw))
        return entries, cut_off

    def __len__(self) -> int:
        """The number of different repetitions that are whole."""
        self._look_for_new()
        return len(self._places)

    def _look_for_new(self) -> None:
        for place, raw in self._raw_from(self._seen):
            if not raw.endswith(b"\n"):
                break  # another process is still writing it, or ended while it did
            self._seen = place + len(raw)
            key = _key_of(raw)
            if key is not None:
                self._places.setdefault(key, place)

    def _raw_from(self, place: int) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as file:
                file.seek(place)
                for raw in file:
                    yield place, raw
                    place += len(raw)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UnusableFile(f"cannot read {self.path}: {error.strerror}") from error

    def _decoded(self, raw: bytes) -> LogEntry:
        return decode_versioned(raw, LogEntry, SCHEMA_VERSION, what="repetition log", path=self.path)


def _key_of(raw: bytes) -> str | None:
    """Return the key of an entry; None if it is not whole."""
    try:
        return msgspec.json.decode(raw, type=_Key).key
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
