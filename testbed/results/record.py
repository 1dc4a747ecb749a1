"""A run that goes on: its folder appears when the first test needs it, and says in the end what became of it.

Every process of a run has a `RunRecord` of its own for the same folder; one of them, the one that reports, closes it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from carico import __version__
from testbed.errors import ResultsError
from testbed.results import runs_folder
from testbed.results.files import make_folder
from testbed.results.locks import hold_open
from testbed.results.provenance import commit_of, machine, packages
from testbed.results.repetition_log import Line
from testbed.results.run import ResultsFile, Run, RunState, SchedulerUsed, WorkloadUsed, read_run, write_run
from testbed.results.run_id import iso, started_of
from testbed.results.runs import RunFolder, remove_old
from testbed.schedulers.spec import parse_spec


@dataclass(frozen=True)
class Asked:
    """What a run was asked to do."""

    command: Sequence[str]
    preset: str | None
    repetitions: int
    seed: int
    settings: Mapping[str, Any]
    attempts: int = 1


class RunRecord:
    """One process's side of a run.

    Parameters
    ----------
    root : Path
        Where the run was started: its folder is `.carico/runs/ID` there.
    run_id : str
        See `new_run_id`.
    asked : Asked
    """

    def __init__(self, root: Path, run_id: str, asked: Asked) -> None:
        self.folder = RunFolder(runs_folder(root) / run_id)
        self._root = root
        self._asked = asked
        self._held: int | None = None

    def open(self, provider: str, kubernetes_version: str | None = None) -> RunFolder:
        """Return the folder, which is there from now on.

        Parameters
        ----------
        provider : str
            The name of what runs everything.
        kubernetes_version : str, optional
            What it runs, if that is no emulation.

        Raises
        ------
        ResultsError
            If it cannot be created.
        """
        folder = self.folder
        if self._held is not None:
            return folder
        try:
            make_folder(folder.locks)
            self._held = hold_open(folder.held)
            if not folder.file.exists():
                write_run(folder.file, self._begun(provider, kubernetes_version))
        except OSError as error:
            raise ResultsError(f"cannot record the run in {folder.path}: {error.strerror}") from error
        remove_old(folder.path.parent)
        return folder

    def close(self, state: RunState, lines: Sequence[Line], ended: datetime, results: Path | None = None) -> None:
        """Say what became of the run; its lines are removed if it is complete and a results file has them all.

        Parameters
        ----------
        state : str
        lines : sequence
            The finished repetitions, see `RepetitionLines.read`.
        ended : datetime
        results : Path, optional
            The results file, once it is there.

        Raises
        ------
        ResultsError
            If that cannot be written; the lines are kept then.
        """
        folder = self.folder
        try:
            run = msgspec.structs.replace(
                read_run(folder.file),
                state=state,
                ended=iso(ended),
                finished_repetitions=len(lines),
                schedulers=[_scheduler(text) for text in sorted({line.repetition.scheduler for line in lines})],
                workloads=sorted(
                    {WorkloadUsed(line.repetition.scenario, line.workload_sha256) for line in lines},
                    key=lambda used: (used.scenario, used.sha256),
                ),
                results=None if results is None else _results_file(results),
            )
            write_run(folder.file, run)
            if state == "complete" and results is not None:
                folder.lines.path.unlink(missing_ok=True)
            shutil.rmtree(folder.locks, ignore_errors=True)
            folder.held.unlink(missing_ok=True)
        except OSError as error:
            raise ResultsError(f"cannot record the run in {folder.path}: {error.strerror}") from error
        finally:
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def _begun(self, provider: str, kubernetes_version: str | None) -> Run:
        asked = self._asked
        return Run(
            id=self.folder.id,
            started=started_of(self.folder.id),
            command=list(asked.command),
            provider=provider,
            preset=asked.preset,
            repetitions=asked.repetitions,
            seed=asked.seed,
            settings=dict(asked.settings),
            attempts=asked.attempts,
            machine=machine(),
            python=platform.python_version(),
            packages=packages(),
            commit=commit_of(self._root),
            kubernetes_version=kubernetes_version,
        )


def _scheduler(text: str) -> SchedulerUsed:
    name, _, arguments = text.partition(":")
    version = __version__ if parse_spec(text).variant is not None else None
    return SchedulerUsed(text, name, version, hashlib.sha256(arguments.encode()).hexdigest())


def _results_file(path: Path) -> ResultsFile:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    return ResultsFile(str(path.absolute()), sha256)
