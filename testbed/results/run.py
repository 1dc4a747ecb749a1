"""The schema of `run.json`, version 1: when, where and with what a run was made, which a results file leaves out.

It contains no host name, user or environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from carico.files import write_whole
from testbed.results.files import read_versioned

RUN_SCHEMA_VERSION = 1

RunState = Literal["running", "complete", "interrupted", "failed"]
"""Complete: everything was run, whether or not tests passed. Interrupted: by Ctrl-C, or by a failure under pytest's
`-x`. Failed: it ended in another way, or its results could not be written. Running: it is still running, or nobody has
noticed yet that its process is gone."""


class Machine(msgspec.Struct, frozen=True):
    """The machine of the run."""

    cpus: int
    """CPUs that the process may use."""
    cpu_model: str
    memory_bytes: int | None
    kernel: str


class Commit(msgspec.Struct, frozen=True):
    """The state of the repository in which the run was started."""

    id: str
    dirty: bool
    """Whether files had been changed since the commit."""


class SchedulerUsed(msgspec.Struct, frozen=True):
    """A scheduler under test."""

    text: str
    """The spec as typed."""
    name: str
    version: str | None
    """Its version as far as it is known; None for kube-scheduler, whose version is that of Kubernetes."""
    arguments_sha256: str
    """Hash of the spec after the name."""
    source_sha256: str | None = None
    """Hash of the file that defines it, for one's own, or of its manifest."""
    parameters: dict[str, Any] = {}
    """All parameters in force, with defaults."""


class WorkloadUsed(msgspec.Struct, frozen=True):
    """A scenario that was run, in one of its sizes."""

    scenario: str
    sha256: str
    """Hash of its canonical JSON: sorted keys, no spaces."""


class ResultsFile(msgspec.Struct, frozen=True):
    """The results file of a run."""

    path: str
    sha256: str | None
    """None for a pipe or a device, which cannot be read back."""


class Run(msgspec.Struct, frozen=True):
    """A run: a session of pytest, or a call of ``carico-testbed run``. Times are UTC, as ISO 8601."""

    id: str
    started: str
    command: list[str]
    provider: str
    preset: str | None
    repetitions: int
    """Repetitions of every experiment that does not set their number itself."""
    seed: int
    settings: dict[str, Any]
    """Settings of the cluster that were changed."""
    machine: Machine
    python: str
    packages: dict[str, str]
    commit: Commit | None
    """None outside a repository, or without git."""
    attempts: int = 1
    """The most times that a disturbed repetition was run."""
    kubernetes_version: str | None = None
    """None for the simulated cluster."""
    cluster: dict[str, str] = {}
    """What made a real cluster: programs with their versions, images, configuration."""
    state: RunState = "running"
    ended: str | None = None
    finished_repetitions: int = 0
    schedulers: list[SchedulerUsed] = []
    workloads: list[WorkloadUsed] = []
    results: ResultsFile | None = None
    schema_version: int = RUN_SCHEMA_VERSION


def read_run(path: Path) -> Run:
    """Read a run.json; see `read_versioned`."""
    return read_versioned(path, Run, RUN_SCHEMA_VERSION, "description of a run")


def write_run(path: Path, run: Run) -> None:
    """Write a run.json, indented for readers; raises OSError."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(run)) + b"\n")
