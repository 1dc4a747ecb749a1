"""The folder `.carico/runs`: a folder for every run, with a name that sorts by time.

A run's folder has `run.json`, `repetitions.jsonl` until the results are written elsewhere, the outcomes of a session's
tests in `outcomes.json`, and, if there were any, the disturbed attempts in `disturbed.jsonl`. Not here: how a run in
progress writes these files (`testbed.results.record`).
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import msgspec

from testbed.errors import ResultsError, UsageError
from testbed.results import runs_folder
from testbed.results.files import folders_with
from testbed.results.locks import ActiveProcesses
from testbed.results.repetition_log import RepetitionLog
from testbed.results.run import Run, read_run, write_run

KEPT = 20
"""Number of latest runs to keep; older runs are kept only if they ended early and have repetitions to recover."""


class RunFolder:
    """The folder of one run.

    Parameters
    ----------
    path : Path
        It need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "run.json"
        self.locks = path / "locks"
        self.processes = ActiveProcesses(path / "processes")
        """The processes that work on the run."""
        self.log = RepetitionLog(path / "repetitions.jsonl", self.locks / "log")
        self.outcomes = path / "outcomes.json"
        """What a session's cluster tests stated and found; only sessions of pytest have it."""
        self.disturbed_log = RepetitionLog(path / "disturbed.jsonl", self.locks / "log")

    @property
    def id(self) -> str:
        """The run's id: the name of its folder."""
        return self.path.name

    def read(self) -> Run:
        """Return what `run.json` says; a run that it calls "running" has failed if no process of it is active.

        Raises
        ------
        ResultsError
            If it cannot be read, or comes from a newer version.
        """
        run = read_run(self.file)
        if run.state != "running":
            return run
        finished = len(self.log)
        state = "running" if self.processes.any_active else "failed"
        return msgspec.structs.replace(run, state=state, finished_repetitions=finished)

    def recovery(self) -> str:
        """Return the command that writes the run's repetitions to a results file, as typed in the current folder."""
        near = self.path.parent == runs_folder(Path.cwd())
        return f"carico-testbed recover {self.id if near else shlex.quote(str(self.path))}"


def all_runs(folder: Path) -> list[RunFolder]:
    """Return all runs, the oldest first."""
    return [RunFolder(path) for path in folders_with(folder, "run.json")]


def run_named(name: str | None, root: Path) -> RunFolder:
    """Return a run by its id or its folder; without a name, the latest run that has repetitions to recover.

    Runs that ended early come before all others.

    Raises
    ------
    UsageError
        If there is no such run.
    """
    folder = runs_folder(root)
    if name is None:
        left = [run for run in all_runs(folder) if run.log.path.exists()]
        if not left:
            raise UsageError(f"no run in {folder} has repetitions to recover; 'carico-testbed runs' lists the runs")
        cut_short = [run for run in left if run.read().state != "complete"]
        return (cut_short or left)[-1]
    for path in (folder / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path)
    raise UsageError(f"no run in {folder} is named {name!r}; 'carico-testbed runs' lists the runs")


def killed_run_notices(folder: Path) -> list[str]:
    """Return a line for every killed run that left finished repetitions, and note it in `run.json`, to tell it once."""
    found = []
    for run in all_runs(folder):
        try:
            noted, known = read_run(run.file), run.read()
            if noted.state == known.state:
                continue
            write_run(run.file, known)
        except (ResultsError, OSError):
            continue  # written by a newer version, or by another user
        if known.finished_repetitions:
            count = known.finished_repetitions
            found.append(f"an earlier run left {count} finished repetition{'s' * (count != 1)}: {run.recovery()}")
    return found


def remove_old(folder: Path) -> None:
    """Remove all but the latest `KEPT` runs; older runs that ended early with repetitions to recover stay, too."""
    for run in all_runs(folder)[:-KEPT]:
        try:
            state = run.read().state
        except ResultsError:
            continue
        if state == "complete" or (state != "running" and not run.log.path.exists()):
            shutil.rmtree(run.path, ignore_errors=True)
