"""A run in progress: its folder is created when a test first needs it; at the end `run.json` says how the run ended.

Every process of a run has its own `RunRecord` of the same folder; the process that reports closes it.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from testbed.errors import ResultsError
from testbed.results import runs_folder
from testbed.results.files import make_folder
from testbed.results.provenance import commit_of, machine, packages
from testbed.results.repetition_log import LogEntry
from testbed.results.run import ResultsFile, Run, RunState, SchedulerUsed, WorkloadUsed, read_run, write_run
from testbed.results.run_id import iso, started_of
from testbed.results.runs import RunFolder, name_latest


@dataclass(frozen=True)
class RunArguments:
    """What the user asked for."""

    command: Sequence[str]
    preset: str | None
    repetitions: int
    seed: int
    settings: Mapping[str, Any]
    attempts: int = 1


class Provider(Protocol):
    """What a record says of a provider; see `testbed.experiment.provider.ClusterProvider`."""

    name: str

    def kubernetes_version(self) -> str | None:
        """Return the version that is run; None if Kubernetes is only emulated."""
        ...

    def made_from(self) -> Mapping[str, str]:
        """Return what makes the cluster."""
        ...


class RunRecord:
    """A run as one of its processes sees it.

    Parameters
    ----------
    root : Path
        Where the run was started; the run's folder is `.carico/runs/ID` below it.
    run_id : str
        See `new_run_id`.
    arguments : RunArguments
    """

    def __init__(self, root: Path, run_id: str, arguments: RunArguments) -> None:
        self.folder = RunFolder(runs_folder(root) / run_id)
        self._root = root
        self._arguments = arguments

    def open(self, provider: Provider) -> RunFolder:
        """Create the run's folder if need be, join the run with this process, and return the folder.

        Parameters
        ----------
        provider : Provider
            What runs the repetitions.

        Raises
        ------
        ResultsError
            If the folder cannot be created.
        """
        folder = self.folder
        if folder.processes.joined:
            return folder
        try:
            make_folder(folder.locks)
            folder.processes.join()
            if not folder.file.exists():
                write_run(folder.file, self._begun(provider))
        except OSError as error:
            raise ResultsError(f"cannot record the run in {folder.path}: {error.strerror}") from error
        return folder

    def close(self, state: RunState, entries: Sequence[LogEntry], ended: datetime, results: Path | None = None) -> None:
        """Record how the run ended; its repetition log is removed if the run has a results file.

        Parameters
        ----------
        state : str
        entries : sequence of LogEntry
            The finished repetitions, see `RepetitionLog.read`.
        ended : datetime
        results : Path, optional
            The results file, once it has been written.

        Raises
        ------
        ResultsError
            If that cannot be written; the repetition log is kept then.
        """
        folder = self.folder
        try:
            run = msgspec.structs.replace(
                read_run(folder.file),
                state=state,
                ended=iso(ended),
                finished_repetitions=len(entries),
                schedulers=[used for _, used in sorted({one.text: one for one in _schedulers(entries)}.items())],
                workloads=sorted(
                    {WorkloadUsed(entry.repetition.scenario, entry.workload_sha256) for entry in entries},
                    key=lambda used: (used.scenario, used.sha256),
                ),
                results=None if results is None else _results_file(results),
            )
            write_run(folder.file, run)
            if results is not None:
                folder.log.path.unlink(missing_ok=True)
                name_latest(folder.path.parent)
            for locks in (folder.locks, folder.processes.folder):
                shutil.rmtree(locks, ignore_errors=True)
        except OSError as error:
            raise ResultsError(f"cannot record the run in {folder.path}: {error.strerror}") from error
        finally:
            folder.processes.leave()

    def _begun(self, provider: Provider) -> Run:
        arguments = self._arguments
        return Run(
            id=self.folder.id,
            started=started_of(self.folder.id),
            command=list(arguments.command),
            provider=provider.name,
            preset=arguments.preset,
            repetitions=arguments.repetitions,
            seed=arguments.seed,
            settings=dict(arguments.settings),
            attempts=arguments.attempts,
            machine=machine(),
            python=platform.python_version(),
            packages=packages(),
            commit=commit_of(self._root),
            kubernetes_version=provider.kubernetes_version(),
            cluster=dict(provider.made_from()),
        )


def _schedulers(entries: Sequence[LogEntry]) -> list[SchedulerUsed]:
    return [entry.scheduler for entry in entries if entry.scheduler is not None]


def _results_file(path: Path) -> ResultsFile:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    return ResultsFile(str(path.absolute()), sha256)
