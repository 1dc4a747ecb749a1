"""The folder `.carico/runs`: a folder for every run, by a name that sorts by time.

A run's folder has `run.json`, `repetitions.jsonl` until the results are written elsewhere, and in `disturbed.jsonl` the
attempts during which others had the machine, if any. Not here: what a run does that goes on (`testbed.results.record`).
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import msgspec

from testbed.errors import ResultsError, UsageError
from testbed.results import runs_folder
from testbed.results.locks import is_held_open
from testbed.results.repetition_log import RepetitionLines
from testbed.results.run import Run, read_run, write_run

KEPT = 20
"""Runs; of older ones only what was left of those that did not come to their end."""


class RunFolder:
    """The folder of one run.

    Parameters
    ----------
    path : Path
        It need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "run.json"
        self.held = path / "held"
        """Is locked by every process that works on the run."""
        self.locks = path / "locks"
        self.lines = RepetitionLines(path / "repetitions.jsonl")
        self.disturbed = RepetitionLines(path / "disturbed.jsonl")

    @property
    def id(self) -> str:
        """Its name."""
        return self.path.name

    def read(self) -> Run:
        """Return what `run.json` says; of a run whose processes are gone it cannot say more than that it has failed.

        Raises
        ------
        ResultsError
            If it cannot be read, or comes from a newer version.
        """
        run = read_run(self.file)
        if run.state != "running":
            return run
        finished = len(self.lines)
        state = "running" if is_held_open(self.held) else "failed"
        return msgspec.structs.replace(run, state=state, finished_repetitions=finished)

    def recovery(self) -> str:
        """Return the command that writes its repetitions to a results file, as it is typed where the user stands."""
        near = self.path.parent == runs_folder(Path.cwd())
        return f"carico-testbed recover {self.id if near else shlex.quote(str(self.path))}"


def all_runs(folder: Path) -> list[RunFolder]:
    """Return all runs, the oldest first."""
    return [RunFolder(file.parent) for file in sorted(folder.glob("*/run.json"))]


def run_named(name: str | None, root: Path) -> RunFolder:
    """Return a run by its id or its folder; without a name the latest that has repetitions to recover.

    One that did not come to its end goes before all that did.

    Raises
    ------
    UsageError
        If there is none.
    """
    folder = runs_folder(root)
    if name is None:
        left = [run for run in all_runs(folder) if run.lines.path.exists()]
        if not left:
            raise UsageError(f"no run in {folder} has repetitions to recover; 'carico-testbed runs' lists the runs")
        cut_short = [run for run in left if run.read().state != "complete"]
        return (cut_short or left)[-1]
    for path in (folder / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path)
    raise UsageError(f"no run in {folder} is named {name!r}; 'carico-testbed runs' lists the runs")


def left_overs(folder: Path) -> list[str]:
    """Say which runs ended without a word and left finished repetitions; notes so, and says it once of each."""
    found = []
    for run in all_runs(folder):
        try:
            noted, known = read_run(run.file), run.read()
            if noted.state == known.state:
                continue
            write_run(run.file, known)
        except (ResultsError, OSError):
            continue  # of a newer version, or not ours to change: nothing to tell
        if known.finished_repetitions:
            count = known.finished_repetitions
            found.append(f"an earlier run left {count} finished repetition{'s' * (count != 1)}: {run.recovery()}")
    return found


def remove_old(folder: Path) -> None:
    """Remove all but the latest `KEPT` runs and what Ctrl-C or a crash has left of older ones."""
    for run in all_runs(folder)[:-KEPT]:
        try:
            state = run.read().state
        except ResultsError:
            continue
        if state == "complete" or (state != "running" and not run.lines.path.exists()):
            shutil.rmtree(run.path, ignore_errors=True)
