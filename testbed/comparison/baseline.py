"""Baselines: what a run measured, in a small file that is committed and that later runs are judged by."""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.comparison.measured import Measured
from testbed.errors import ResultsError
from testbed.results.files import read_versioned, write_whole
from testbed.results.run import Commit, Run

BASELINE_SCHEMA_VERSION = 1


class MadeBy(msgspec.Struct, frozen=True):
    """The run that made a baseline."""

    run: str
    started: str
    command: list[str]
    provider: str
    python: str
    packages: dict[str, str]
    commit: Commit | None


class Baseline(msgspec.Struct, frozen=True):
    """A baseline file."""

    made_by: MadeBy
    measured: list[Measured]
    schema_version: int = BASELINE_SCHEMA_VERSION


def baseline_of(run: Run, measured: list[Measured]) -> Baseline:
    """Return what a run measured as a baseline."""
    made_by = MadeBy(run.id, run.started, run.command, run.provider, run.python, run.packages, run.commit)
    return Baseline(made_by, measured)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline, one scenario and scheduler a line, so that changes of it can be reviewed.

    Raises
    ------
    ResultsError
        If it cannot be written; an earlier file is not changed.
    """
    lines = ",\n".join(msgspec.json.encode(one).decode() for one in baseline.measured)
    made_by = msgspec.json.encode(baseline.made_by).decode()
    text = f'{{"schema_version":{baseline.schema_version},"made_by":{made_by},"measured":[\n{lines}\n]}}\n'
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise ResultsError(f"cannot write the baseline to {path}: {error.strerror}") from error


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises
    ------
    ResultsError
        If it cannot be read, is no baseline, comes from a newer version, or its series do not fit its seeds.
    """
    found = read_versioned(path, Baseline, BASELINE_SCHEMA_VERSION, "baseline")
    for one in found.measured:
        if len(set(one.seeds)) < len(one.seeds) or any(len(series.values) != len(one.seeds) for series in one.series):
            raise ResultsError(f"{path} is not a baseline of carico-testbed: {one.title}: one value a seed is needed")
    if not found.measured:
        raise ResultsError(f"{path} is a baseline of nothing: make it anew with --carico-save-baseline")
    return found


def is_baseline(path: Path) -> bool:
    """Whether a file looks like a baseline; results files begin otherwise."""
    with path.open("rb") as file:
        return b'"made_by"' in file.read(200)
