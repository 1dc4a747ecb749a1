"""The folder `.carico/runs`: a folder for every run, with a name that sorts by time.

A run's folder has `run.json`, `repetitions.jsonl` while it goes on and `result.json` once it has ended, the outcomes of
a session's tests in `outcomes.json`, and, if there were any, the disturbed attempts in `disturbed.jsonl`, what the
session's gate said in `gate.json`, and what those of single tests said in `gates`. No run touches the folder of
another; only the user removes runs. `.carico/latest` is a link to the newest run with results.
Not here: how a run in progress writes these files (`testbed.results.record`).
"""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from testbed.errors import ResultsError, UsageError, suggested
from testbed.results import runs_folder
from testbed.results.files import folders_with
from testbed.results.locks import ActiveProcesses
from testbed.results.repetition_log import RepetitionLog
from testbed.results.run import Run, read_run, write_run

_LISTS = "'carico-testbed runs' lists the runs"
LATEST = "latest"
"""Names the newest run that has results: in commands, and as a link beside the folder of runs."""


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
        self.result = path / "result.json"
        """The results file, once the run has ended."""
        self.outcomes = path / "outcomes.json"
        """What a session's cluster tests stated and found; only sessions of pytest have it."""
        self.gate = path / "gate.json"
        """What the gate of a session has said, if it had one."""
        self.test_gates = path / "gates"
        """The folder with what the gates of single tests have said, if there were any."""
        self.step_summary = path / "step_summary"
        """Names the job of GitHub Actions whose summary has the verdicts already."""
        self.disturbed_log = RepetitionLog(path / "disturbed.jsonl", self.locks / "log")

    @property
    def id(self) -> str:
        """The run's id: the name of its folder."""
        return self.path.name

    @property
    def to_recover(self) -> bool:
        """Whether repetitions are only in the log yet, as while a run goes on, or where it was killed."""
        return self.log.path.exists() and not self.result.exists()

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


def run_named(name: str | None, root: Path, *, or_file: bool = False) -> RunFolder:
    """Return a run by its id, its folder or as `latest`; without a name, the newest that has repetitions to recover.

    Parameters
    ----------
    name : str or None
    root : Path
        The folder whose `.carico` has the runs.
    or_file : bool
        Whether the name could have been a file's, for the message if there is nothing of that name.

    Raises
    ------
    UsageError
        If there is no such run.
    """
    folder = runs_folder(root)
    if name is None:
        left = [run for run in all_runs(folder) if run.log.path.exists()]
        if not left:
            raise UsageError(f"no run in {folder} has repetitions to recover; {_LISTS}")
        return left[-1]
    if name == LATEST:
        if newest := _with_results(folder):
            return newest[-1]
        raise UsageError(f"no run in {folder} has results; {_LISTS}")
    for path in (folder / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path)
    known = [LATEST, *(run.id for run in all_runs(folder))]
    if or_file:
        known += sorted(path.name for path in Path.cwd().glob("*.json"))
    problem = f"neither a file nor a run in {folder}" if or_file else f"no run in {folder}"
    raise UsageError(f"{problem} is named {name!r}{suggested(name, known, _LISTS)}")


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


def name_latest(folder: Path) -> None:
    """Let the link `.carico/latest` point to the newest run with results."""
    newest = _with_results(folder)
    if not newest:
        return
    link = folder.parent / LATEST
    beside = link.with_name(f".{LATEST}.{os.getpid()}")
    with suppress(OSError):  # not every file system has links; in commands the name works without
        beside.symlink_to(newest[-1].path.relative_to(folder.parent), target_is_directory=True)
        beside.replace(link)


def remove_all_but(folder: Path, kept: int) -> list[RunFolder]:
    """Remove old runs at the user's word, and return them; a run that still goes on stays.

    Parameters
    ----------
    folder : Path
        The folder of runs.
    kept : int
        How many of the newest runs stay.
    """
    runs = all_runs(folder)
    removed = []
    for run in runs[: max(0, len(runs) - kept)]:
        if not run.processes.any_active:
            shutil.rmtree(run.path)
            removed.append(run)
    return removed


def _with_results(folder: Path) -> list[RunFolder]:
    return [run for run in all_runs(folder) if run.result.exists()]
