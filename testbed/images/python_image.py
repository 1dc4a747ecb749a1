"""Images with Python programs: CARICO's processes, and the workloads.

They can be built on any image with Python, and on our own where none can be pulled.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from packaging.requirements import Requirement

from testbed.errors import BuildFailed
from testbed.images.docker import Docker
from testbed.images.image import RECIPES, Image
from testbed.images.programs import OnProgress
from testbed.images.step import STEP_S

DISTRIBUTION = "carico-testbed"
PUBLISHED_BASE = "docker.io/library/python:3.11-slim"
OLDEST_PYTHON = (3, 11)
"""The same as in pyproject.toml."""

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


def program_image(docker: Docker, name: str, package: str, extras: tuple[str, ...], base: Image | str) -> Image:
    """Return the image of one of this project's packages, with the requirements of some extras of its distribution.

    Parameters
    ----------
    docker : Docker
    name : str
        The image's name.
    package : str
        The package to copy as it is installed here: carico or workloads.
    extras : tuple of str
        The distribution's extras whose requirements are installed.
    base : Image or str
        The image to build on, or the name of one that can be pulled.
    """
    recipe = RECIPES / "programs" / "Containerfile"
    source = Path(str(resources.files(package)))
    needed = requirements(extras)

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
            if needed:
                on_progress(f"{name}: fetching {len(needed)} packages and their dependencies")
                _fetch(needed, packages, _python_of(docker, below))
            on_progress(f"{name}: building the image")
            files = {"packages": packages, "commands": commands, f"program/{package}": source}
            docker.build(tag, {"Containerfile": recipe, **files}, {"BASE": below})

    return Image(name, (base if isinstance(base, str) else base.tag, recipe, source, *needed), make)


def requirements(extras: tuple[str, ...], distribution: str = DISTRIBUTION) -> tuple[str, ...]:
    """Return the requirements of a distribution's extras, pinned to the versions that are installed here, if any.

    Raises
    ------
    BuildFailed
        If the distribution is not installed, as in a checkout that is only on the path.
    """
    if not extras:
        return ()
    try:
        listed = [Requirement(text) for text in importlib.metadata.requires(distribution) or ()]
    except importlib.metadata.PackageNotFoundError as error:
        raise BuildFailed(f"{distribution} is not installed, so its requirements are unknown: pip install .") from error
    found: set[str] = set()
    for requirement in listed:
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            if requirement.name == distribution:
                found.update(requirements(tuple(requirement.extras), distribution))
            else:
                found.add(_pinned(requirement))
    return tuple(sorted(found))


def _pinned(requirement: Requirement) -> str:
    try:
        return f"{requirement.name}=={importlib.metadata.version(requirement.name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name}{requirement.specifier}"


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


def _fetch(needed: tuple[str, ...], place: Path, python: str) -> None:
    """Install wheels for a given version of Python, whatever version runs this."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", f"--target={place}"]
    try:
        done = subprocess.run([*command, *needed], capture_output=True, text=True, check=False, timeout=STEP_S)
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(
            f"pip did not fetch {', '.join(needed)} within {STEP_S:.0f} s: does the package index answer "
            f"(pip config list)?"
        ) from error
    if done.returncode:
        raise BuildFailed(f"pip could not fetch {', '.join(needed)}:\n{done.stderr.strip()}")
    for pattern in _NOT_NEEDED:
        for folder in sorted(place.glob(pattern)):
            shutil.rmtree(folder, ignore_errors=True)
