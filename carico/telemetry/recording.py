"""Recordings of a node's counters: JSON lines, a header and then one reading per line; needs msgspec.

A line is written whole or not at all, so a recording cut short by Ctrl-C, a crash or a full disk remains valid. A
recording holds readings, not telemetry: a replay computes everything else from them again.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

import msgspec
from msgspec import Meta

from carico.clock import Clock
from carico.errors import InvalidRecording, RecordingEnded
from carico.telemetry.counters import Counters
from carico.telemetry.sampler import Sampler
from carico.telemetry.source import TelemetrySource

_log = logging.getLogger(__name__)
_LONGEST_LINE = 4096
_FIELDS = tuple(field.name for field in fields(Counters))

# Bounds far beyond any machine, so that no arithmetic on a reading overflows.
Amount = Annotated[float, Meta(ge=0, le=1e18)]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    schema_version: Literal[1]
    node: Annotated[str, Meta(max_length=253)]
    """The node's name."""
    source: Annotated[str, Meta(max_length=64)]
    """The kind of telemetry source."""
    period_s: Annotated[float, Meta(ge=1e-3, le=86_400)]
    """Time between two readings."""


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every other line: the fields of `Counters`."""

    at_s: Annotated[float, Meta(ge=-1e18, le=1e18)]
    cpu_total: Amount
    cpu_idle: Annotated[float, Meta(ge=-1e18, le=1e18)]
    """Below 0 where a cgroup used more than it was granted."""
    cpu_pressure_us: Amount
    memory_total: Annotated[float, Meta(gt=0, le=1e18)]
    memory_free: Amount
    memory_buffers: Amount
    memory_cached: Amount
    memory_pressure_us: Amount = 0.0
    io_pressure_us: Amount = 0.0
    disk_reading_ms: Amount = 0.0
    disk_read_work: Amount = 0.0
    cpu_stolen: Amount = 0.0


Line = TypeVar("Line", Header, Reading)


class Recorder:
    """Writes a recording; closed on leaving a `with`.

    Parameters
    ----------
    path : path
        A file that does not exist yet.
    header : Header

    Raises
    ------
    InvalidRecording
        If the file exists; it is left unchanged.
    OSError
        If the file cannot be written.
    """

    def __init__(self, path: Path, header: Header) -> None:
        try:
            # Unbuffered: when `write` returns, the operating system has the line.
            self._file = path.open("xb", buffering=0)
        except FileExistsError as error:
            raise InvalidRecording(f"{path} exists and is not overwritten: name another file") from error
        self._written = 0
        self._append(header)

    def write(self, reading: Counters) -> None:
        """Append a reading of one node.

        Raises
        ------
        OSError
            If the reading cannot be written, as on a full disk; the file then ends with the previous line.
        """
        self._append(Reading(**{name: float(getattr(reading, name)) for name in _FIELDS}))

    def _append(self, line: Header | Reading) -> None:
        data = msgspec.json.encode(line) + b"\n"
        try:
            rest = data
            while rest:  # a disk that fills up may take only part of a line
                rest = rest[self._file.write(rest) :]
        except OSError:
            os.truncate(self._file.fileno(), self._written)
            raise
        self._written += len(data)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record(source: TelemetrySource, clock: Clock, recorder: Recorder, duration_s: float = math.inf) -> None:
    """Write every new reading of the source, at the source's period, for `duration_s` seconds.

    Raises
    ------
    TelemetryError
        If the source cannot be read.
    OSError
        If the recording cannot be written.
    """
    sampler = Sampler(source, clock, source.period_s)
    recorder.write(sampler.start())
    ends = clock.now() + duration_s
    while sampler.due + source.period_s / 2 < ends:
        reading = sampler.next_reading()
        if reading is not None:
            recorder.write(reading)


class ReplaySource(TelemetrySource):
    """Replays a recording: returns each reading when its time has come.

    The times of the readings are shifted to the clock, so that the first reading lies half a period before the first
    call. A loop with the same period therefore gets every reading once, even if some were recorded late.

    Parameters
    ----------
    path : path
        The recording.
    clock : Clock
        The clock of the replay.

    Raises
    ------
    InvalidRecording
        If the file cannot be read, or its first two lines are not a header and a reading.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._line = 0
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise InvalidRecording(f"cannot read the recording {path}: {error.strerror}") from error
        try:
            self.header = self._expected(Header)
            self._ahead: Reading | None = self._expected(Reading)
        except InvalidRecording:
            self.close()
            raise
        self.period_s = self.header.period_s
        self._shift_s = math.nan
        self._latest: Counters | None = None

    def read(self) -> Counters:
        """Return the latest reading whose time has come.

        Raises
        ------
        RecordingEnded
            If the last reading was returned before.
        InvalidRecording
            If a line is not a reading, or its time is not after the previous line's.
        """
        now = self._clock.now()
        if self._latest is None and self._ahead is not None:
            self._shift_s = now - self.period_s / 2 - self._ahead.at_s
        due = None
        while self._ahead is not None and self._ahead.at_s + self._shift_s <= now:
            due, self._ahead = self._ahead, self._following(self._ahead)
        if due is not None:
            self._latest = Counters(**msgspec.structs.asdict(due) | {"at_s": due.at_s + self._shift_s})
        elif self._ahead is None or self._latest is None:
            raise RecordingEnded(f"{self.path} ended after line {self._line}")
        return self._latest

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._file.close()

    def _following(self, previous: Reading) -> Reading | None:
        reading = self._next(Reading)
        if reading is not None and reading.at_s <= previous.at_s:
            raise self._invalid(f"at_s must be above that of the line before, {previous.at_s}, got {reading.at_s}")
        return reading

    def _expected(self, kind: type[Line]) -> Line:
        line = self._next(kind)
        if line is None:
            self._line += 1
            raise self._invalid(f"a {kind.__name__.lower()} is needed, the file ends before it")
        return line

    def _next(self, kind: type[Line]) -> Line | None:
        """Return the next line, or None at the end and for an incomplete last line."""
        try:
            line = self._file.readline(_LONGEST_LINE)
        except (OSError, ValueError) as error:  # ValueError: the file is closed
            raise InvalidRecording(f"cannot read the recording {self.path}: {error}") from error
        if not line:
            return None
        if not line.endswith(b"\n"):
            if len(line) < _LONGEST_LINE:
                _log.warning("%s: line %d is incomplete and left out", self.path, self._line + 1)
                return None
            self._line += 1
            raise self._invalid(f"a line has at most {_LONGEST_LINE} bytes")
        self._line += 1
        try:
            return msgspec.json.decode(line, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._invalid(f"not a {kind.__name__.lower()}: {error}") from error

    def _invalid(self, problem: str) -> InvalidRecording:
        return InvalidRecording(f"{self.path}, line {self._line}: {problem}; record again with `carico record`")
