"""The finished repetitions of a run that goes on: a file with a JSON line each, written as soon as one is finished.

All processes of a run share it. Whatever ends one of them, what was finished is there: a line that a crash has cut off
is passed over, and the next one begins on a line of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from testbed.errors import ResultsError
from testbed.results.files import decode_versioned
from testbed.results.locks import locked
from testbed.results.schema import SCHEMA_VERSION, Repetition

WHAT = "line of repetitions"


class Line(msgspec.Struct, frozen=True):
    """A finished repetition."""

    key: str
    """A hash of everything that was asked for: equal keys are equal repetitions."""
    workload_sha256: str
    """Of the scenario's canonical JSON."""
    repetition: Repetition
    schema_version: int = SCHEMA_VERSION


class _Key(msgspec.Struct):
    key: str


def notice_of(cut_off: int) -> str:
    """Return what to tell about lines that are not whole.

    Examples
    --------
    >>> notice_of(1)
    'repetitions left out, because a crash cut them off: 1'
    """
    return f"repetitions left out, because a crash cut them off: {cut_off}"


class RepetitionLines:
    """Appends to such a file and looks things up in it; any number of processes may do so at the same time.

    Parameters
    ----------
    path : Path
        The file; it appears with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = 0
        """How much of the file, in bytes, `_places` knows."""
        self._places: dict[str, int] = {}

    def append(self, line: Line) -> None:
        """Add a line; what is left of it when that fails is passed over by readers.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        content = msgspec.json.encode(line) + b"\n"
        try:
            with locked(self.path) as file:
                end = os.fstat(file).st_size
                if end and os.pread(file, 1, end - 1) != b"\n":
                    content = b"\n" + content
                while content:
                    content = content[os.write(file, content) :]
        except OSError as error:
            raise ResultsError(
                f"cannot write a finished repetition to {self.path}: {error.strerror}; make room for it"
            ) from error

    def find(self, key: str) -> Repetition | None:
        """Return the repetition with that key; None if no process has finished it yet."""
        if key not in self._places:
            self._look_for_new()
        if key not in self._places:
            return None
        with self.path.open("rb") as file:
            file.seek(self._places[key])
            return self._decoded(file.readline()).repetition

    def find_all(self, key: str) -> list[Repetition]:
        """Return all repetitions with that key that are whole, in their order."""
        return [line.repetition for line in self.read()[0] if line.key == key]

    def read(self) -> tuple[list[Line], int]:
        """Return all lines that are whole, and how many are not.

        Raises
        ------
        ResultsError
            If the file cannot be read, or comes from a newer version.
        """
        lines, cut_off = [], 0
        for _, raw in self._raw_from(0):
            try:
                msgspec.json.decode(raw, type=_Key)
            except msgspec.MsgspecError:
                cut_off += 1
            else:
                lines.append(self._decoded(raw))
        return lines, cut_off

    def __len__(self) -> int:
        """How many there are that are whole."""
        self._look_for_new()
        return len(self._places)

    def _look_for_new(self) -> None:
        for place, raw in self._raw_from(self._seen):
            if not raw.endswith(b"\n"):
                break  # another process is still writing it, or was when it ended
            self._seen = place + len(raw)
            try:
                self._places.setdefault(msgspec.json.decode(raw, type=_Key).key, place)
            except msgspec.MsgspecError:
                continue

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
            raise ResultsError(f"cannot read {self.path}: {error.strerror}") from error

    def _decoded(self, raw: bytes) -> Line:
        return decode_versioned(raw, Line, SCHEMA_VERSION, WHAT, self.path)
