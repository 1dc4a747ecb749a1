"""What a measurement depends on besides its arguments: machine, versions and commit; no names of people or hosts."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from carico import __version__
from testbed.results.run import Commit, Machine, SchedulerUsed
from testbed.schedulers.spec import SchedulerSpec

PACKAGES = ("msgspec", "numpy", "pytest", "pytest-xdist", "pyyaml", "scipy", "simpy")


def machine() -> Machine:
    """Return a description of this machine."""
    memory = meminfo_bytes("MemTotal")
    kernel = f"{platform.system()} {platform.release()}"
    return Machine(len(os.sched_getaffinity(0)), cpu_model(), memory, kernel)


def meminfo_bytes(name: str, file: Path = Path("/proc/meminfo")) -> int | None:
    """Return a value of /proc/meminfo in bytes; None where it cannot be read."""
    for line in _lines(file):
        key, _, value = line.partition(":")
        number = value.split()[:1]
        if key == name and number and number[0].isdigit():
            return int(number[0]) * 1024
    return None


def cpu_model() -> str:
    """Return the name of the processor, or its architecture if the name is unknown."""
    models = [line.partition(":")[2].strip() for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")]
    return models[0] if models else platform.machine()


@cache
def packages() -> dict[str, str]:
    """Return the versions of the packages that results may depend on; those that are not installed are left out."""
    found = {"carico-testbed": __version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit_of(folder: Path) -> Commit | None:
    """Return the commit of the repository that a folder is in; None if it is in none, or git does not answer."""
    git = shutil.which("git")
    if git is None:
        return None
    answers = []
    for question in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
        try:
            done = subprocess.run(  # noqa: S603 - our own arguments
                [git, "-C", str(folder), "--no-optional-locks", *question],
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        answers.append(done.stdout.strip())
    return Commit(answers[0], dirty=bool(answers[1]))


def scheduler_used(spec: SchedulerSpec) -> SchedulerUsed:
    """Return what a scheduler under test is."""
    known, arguments = spec.provenance, spec.text.partition(":")[2]
    return SchedulerUsed(
        text=spec.text,
        name=known.name,
        version=known.version,
        arguments_sha256=hashlib.sha256(arguments.encode()).hexdigest(),
        source_sha256=known.source_sha256,
        parameters=dict(known.parameters),
    )


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
