"""Images with Python programs: CARICO's processes, and the workloads.

They can be built on any image with Python, and on our own where none can be pulled.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from testbed.errors import BuildFailed
from testbed.images.docker import Docker
from testbed.images.image import RECIPES, Image
from testbed.images.programs import OnProgress
from testbed.images.step import STEP_S

PUBLISHED_BASE = "docker.io/library/python:3.11-slim"
OLDEST_PYTHON = (3, 11)
"""The same as in pyproject.toml."""

LOCKS = Path(str(resources.files("testbed.images") / "locks"))
"""The packages that images need: a file an extra, with one version of each package and its hashes (scripts/lock)."""

_NOT_NEEDED = ("bin", "kubernetes/aio", "**/tests")
"""Parts of packages to leave out: commands for this machine's Python, a second Kubernetes client (66 MB), tests."""


def base_image(docker: Docker, debian: Image) -> Image:
    """Return the image with Python, a shell and nothing else."""
    recipe = RECIPES / "python" / "Containerfile"
    script = RECIPES / "common" / "with-libraries"

    def make(tag: str, on_progress: OnProgress) -> None:
        base = debian.ensure(docker, on_progress)
        on_progress("python: copying it with its libraries")
        docker.build(tag, {"Containerfile": recipe, "with-libraries": script}, {"BASE": base})

    return Image("python", (debian.tag, recipe, script), make)


def program_image(docker: Docker, name: str, package: str, extra: str, base: Image | str) -> Image:
    """Return the image of one of this project's packages, with the packages that it needs.

    Parameters
    ----------
    docker : Docker
    name : str
        The image's name.
    package : str
        The package to copy as it is installed here: carico or workloads.
    extra : str
        The distribution's extra whose packages are installed, as locked; empty if none are.
    base : Image or str
        The image to build on, or the name of one that can be pulled.
    """
    recipe = RECIPES / "programs" / "Containerfile"
    source = Path(str(resources.files(package)))
    locked = [LOCKS / f"{extra}.txt"] if extra else []

    def make(tag: str, on_progress: OnProgress) -> None:
        below = base if isinstance(base, str) else base.ensure(docker, on_progress)
        with tempfile.TemporaryDirectory(prefix=f"carico-{name}-") as place:
            packages, commands = Path(place, "packages"), Path(place, "commands")
            packages.mkdir()
            commands.mkdir()
            if (source / "__main__.py").is_file():
                command = commands / package
                command.write_text(f'#!/bin/sh\nexec python3 -m {package} "$@"\n', encoding="utf-8")
                command.chmod(0o755)
            for each in locked:
                on_progress(f"{name}: fetching the packages of {each.name}")
                _fetch(each, packages, _python_of(docker, below))
            on_progress(f"{name}: building the image")
            files = {"packages": packages, "commands": commands, f"program/{package}": source}
            docker.build(tag, {"Containerfile": recipe, **files}, {"BASE": below})

    return Image(name, (base if isinstance(base, str) else base.tag, recipe, source, *locked), make)


def _python_of(docker: Docker, base: str) -> str:
    """Return the version of a base's Python, for example 3.11, which decides which wheels fit."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = docker.call("run", "--rm", "--network=none", "--entrypoint=python3", base, "-c", ask).strip()
    if tuple(map(int, version.split("."))) < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise BuildFailed(
            f"Python of {base} is {version}, CARICO needs {wanted} or newer: build images on a newer distribution"
        )
    return version


def _fetch(lock: Path, place: Path, python: str) -> None:
    """Install wheels for a given version of Python, whatever version runs this, and none that differs from the lock."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += [
        "--require-hashes",
        f"--requirement={lock}",
        "--only-binary=:all:",
        f"--python-version={python}",
        "--implementation=cp",
        f"--target={place}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=STEP_S)
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(
            f"pip did not fetch the packages of {lock} within {STEP_S:.0f} s: does the package index answer "
            f"(pip config list)?"
        ) from error
    if done.returncode:
        raise BuildFailed(f"pip could not fetch the packages of {lock}:\n{done.stderr.strip()}")
    for pattern in _NOT_NEEDED:
        for folder in sorted(place.glob(pattern)):
            shutil.rmtree(folder, ignore_errors=True)
