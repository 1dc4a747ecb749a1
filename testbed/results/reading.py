"""Reads what runs have left, in whatever state: what is damaged is told with file and line, and spares the rest.

For looking at results. What is judged, by a gate or a comparison, is read strictly (`testbed.results.store`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from testbed.errors import ResultsError, UnusableFile, UsageError
from testbed.results.files import decode_versioned
from testbed.results.gate_file import GateFile, read_gate
from testbed.results.outcomes import Outcome
from testbed.results.outcomes_file import read_outcomes
from testbed.results.repetition_log import LogEntry
from testbed.results.run import Run
from testbed.results.runs import RunFolder, run_named
from testbed.results.schema import SCHEMA_VERSION, Repetition, Results
from testbed.results.store import merged

T = TypeVar("T")
_HEAD = re.compile(rb'\{"schema_version":(\d+),"repetitions":\[\n')
"""The first line of a results file as `write_results` writes it; every repetition is a line of its own."""


@dataclass(frozen=True)
class Reading:
    """What was read of a run, or of a results file."""

    name: str
    """The run's id; the file as it was named, if it belongs to no run."""
    run: Run | None
    """None if there is no record of the run."""
    repetitions: list[Repetition]
    """In the order of a results file."""
    outcomes: list[Outcome]
    """What a session's cluster tests stated, with their rows of the paper."""
    problems: list[str]
    """What could not be read, each with file and line."""
    folder: RunFolder | None = None
    """The run's folder; None if it belongs to no run."""
    gate: GateFile | None = None
    """What the session's gate said, if it had one."""
    test_gates: Sequence[GateFile] = ()
    """What the gates of single tests said, by test."""

    @property
    def gates(self) -> list[GateFile]:
        """What all gates said, the session's first."""
        return [*([] if self.gate is None else [self.gate]), *self.test_gates]


def read_all(names: Iterable[str | Path], root: Path) -> list[Reading]:
    """Read several runs or results files, each once.

    Parameters
    ----------
    names : iterable of str or Path
        Results files, logs of repetitions, folders of runs, ids of runs, or `latest`.
    root : Path
        The folder whose `.carico` has the runs that are named by their ids.

    Raises
    ------
    UsageError
        If there is nothing of that name, or nothing has results.
    UnusableFile
        If nothing can be read.
    """
    found: dict[Path, Reading] = {}
    for name in names:
        place = Path(name)
        if place.is_file():
            run = RunFolder(place.resolve().parent)
            whole = run.file.exists() and place.name in (run.result.name, run.log.path.name)
            found.setdefault(place.resolve(), _read(run if whole else None, place))
            continue
        run = run_named(str(name), root, or_file=True)
        # A run that was killed has no results file yet, but what it has finished.
        file = run.result if run.result.exists() else run.log.path
        found.setdefault(file.resolve(), _read(run, file))
    if not any(one.repetitions or one.outcomes for one in found.values()):
        problems = [problem for one in found.values() for problem in one.problems]
        told = f"no results in {', '.join(map(str, names))}{': ' * bool(problems)}{'; '.join(problems)}"
        raise (UnusableFile if problems else UsageError)(f"{told}; 'carico-testbed runs' lists the runs")
    return list(found.values())


def read_repetitions(path: Path) -> tuple[list[Repetition], list[str]]:
    """Return the repetitions of a results file or of a log of repetitions, and what could not be read."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"cannot read {path}: {error.strerror}"]
    if path.suffix == ".jsonl":
        return _from_lines(path, content.splitlines(), 1, log=True)
    try:
        whole = decode_versioned(content, Results, SCHEMA_VERSION, what="results file", path=path).repetitions
        return _sound((Path(f"{path}:{number}"), one) for number, one in enumerate(whole, 2))
    except ResultsError as error:
        head = _HEAD.match(content)
        if head is None or int(head[1]) > SCHEMA_VERSION:
            return [], [str(error)]
    *lines, end = content[head.end() :].rstrip().split(b"\n")
    if end == b"]}":
        return _from_lines(path, lines, 2, log=False)
    repetitions, problems = _from_lines(path, [*lines, end], 2, log=False)
    return repetitions, problems or [f"{path}:{len(lines) + 2} is the last line, but not the end of the results"]


def _read(run: RunFolder | None, file: Path) -> Reading:
    repetitions, problems = read_repetitions(file)
    repetitions = merged(repetitions).repetitions
    if run is None:
        return Reading(str(file), None, repetitions, [], problems)

    def read(path: Path, how: Callable[[], T]) -> T | None:
        try:
            return how() if path.exists() else None
        except ResultsError as error:
            problems.append(str(error))
            return None

    record = read(run.file, run.read)
    outcomes = read(run.outcomes, lambda: read_outcomes(run.outcomes)) or []
    gate = read(run.gate, lambda: read_gate(run.gate))
    found = [read(file, partial(read_gate, file)) for file in sorted(run.test_gates.glob("*.json"))]
    test_gates = sorted((one for one in found if one is not None), key=lambda one: one.test)
    return Reading(run.path.resolve().name, record, repetitions, outcomes, problems, run, gate, test_gates)


def _from_lines(path: Path, lines: Iterable[bytes], first: int, *, log: bool) -> tuple[list[Repetition], list[str]]:
    read, problems = [], []
    for number, line in enumerate(lines, first):
        place = Path(f"{path}:{number}")
        try:
            if log:
                entry = decode_versioned(line, LogEntry, SCHEMA_VERSION, what="entry of a repetition log", path=place)
                read.append((place, entry.repetition))
            else:
                read.append((place, msgspec.json.decode(line.rstrip(b","), type=Repetition)))
        except ResultsError as error:
            problems.append(str(error))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # also: not UTF-8, or nested too deeply
            problems.append(f"{place} is not a whole repetition: {error}")
    repetitions, unsound = _sound(read)
    return repetitions, problems + unsound


def _sound(read: Iterable[tuple[Path, Repetition]]) -> tuple[list[Repetition], list[str]]:
    """Leave out what has settings that no testbed writes: the schema lets providers write any."""
    repetitions, problems = [], []
    for place, one in read:
        try:
            sum(one.measured_jobs.values())
            repetitions.append(one)
        except (AttributeError, KeyError, TypeError) as error:
            problems.append(f"{place} has settings whose jobs cannot be read: {error!r}")
    return repetitions, problems
