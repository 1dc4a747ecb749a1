"""Reads and writes results files: JSON, one repetition per line, sorted, so that equal measurements give equal bytes.

A file appears whole or not at all: it is written under another name in the same folder, then renamed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from carico.files import write_whole
from testbed.errors import ResultsError, UnusableFile
from testbed.results import OWN_FOLDER
from testbed.results.files import make_folder, read_versioned
from testbed.results.schema import SCHEMA_VERSION, Repetition, Results


def merged(repetitions: Iterable[Repetition]) -> Results:
    """Return results in the order of files, whatever the order of measurement; equal repetitions are kept once.

    The order is by scenario, scheduler, number of pods, settings and seed.
    """
    found = {msgspec.json.encode(repetition): repetition for repetition in repetitions}
    return Results([found[key] for key in sorted(found, key=lambda key: (*_place(found[key]), key))])


def write_complete(path: Path, results: Results) -> None:
    """Write the results of a complete run, and remove partial results of an earlier, interrupted one."""
    write_results(path, results)
    partial_path(path).unlink(missing_ok=True)


def write_results(path: Path, results: Results) -> None:
    """Write a results file.

    Raises
    ------
    ResultsError
        If the file cannot be written; an earlier file is not changed.
    """
    lines = b",\n".join(msgspec.json.encode(repetition) for repetition in results.repetitions)
    content = b'{"schema_version":%d,"repetitions":[\n%s\n]}\n' % (results.schema_version, lines)
    path = Path(os.path.realpath(path))  # a link stays a link
    try:
        if _is_special(path):
            path.write_bytes(content)
            return
        if path.parent.name == OWN_FOLDER:
            make_folder(path.parent)
        write_whole(path, content)
    except OSError as error:
        raise ResultsError(f"cannot write the results to {path}: {error.strerror}") from error


def read_results(path: Path) -> Results:
    """Read a results file; keys that this version does not know are ignored.

    Raises
    ------
    UnusableFile
        If it cannot be read, is not a results file, or comes from a newer version.
    """
    return read_versioned(path, Results, SCHEMA_VERSION, "results file")


def check_writable(path: Path, what: str = "the results") -> None:
    """Check, before hours are spent on measuring, that a file can be written to `path`; leaves no trace.

    Raises
    ------
    UnusableFile
        If they cannot be written; the message says what to change.
    """
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise UnusableFile(f"cannot write {what} to {path}: it is a folder; name a file")
    folder = path.parent
    if folder.name == OWN_FOLDER and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise UnusableFile(f"cannot write {what} to {path}: there is no folder {folder}; create it first")
    try:
        if path.exists():
            with path.open("ab"):
                pass
        if not _is_special(path):
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise UnusableFile(f"cannot write {what} to {path}: {error.strerror}; name another file") from error


def partial_path(path: Path) -> Path:
    """Return the file for the finished repetitions of an interrupted run."""
    return path.with_name(path.name + ".partial")


def _place(repetition: Repetition) -> tuple[str, str, int, bytes, int]:
    pods = sum(repetition.measured_jobs.values())
    settings = msgspec.json.encode(repetition.settings, order="sorted")
    return repetition.scenario, repetition.scheduler, pods, settings, repetition.seed


def _is_special(path: Path) -> bool:
    """Whether the path is a device or a pipe (/dev/stdout), which must not be replaced by a file."""
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)
