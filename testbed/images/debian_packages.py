"""Packages of this machine's own distribution, downloaded and unpacked without being installed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import BuildFailed, Unprepared
from testbed.images.step import run_step


def dependency_of(package: str, prefix: str) -> str:
    """Return the package, named by a prefix, on which another one depends, as apt knows it.

    Raises
    ------
    Unprepared
        If apt does not know the package, or it depends on no such package.
    """
    try:
        said = subprocess.run(
            ["apt-cache", "depends", "--important", package], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unprepared(
            f"apt does not know the package {package} ({error}): run apt-get update, or build on a machine with Debian"
        ) from error
    for line in said.splitlines():
        kind, _, name = line.strip().partition(" ")
        if kind == "Depends:" and name.startswith(prefix):
            return name
    raise Unprepared(f"the package {package} depends on no {prefix}…: build on a machine with Debian")


def unpack_packages(packages: Sequence[str], folder: Path) -> None:
    """Download packages, and unpack their files into a folder.

    Raises
    ------
    BuildFailed
        If the mirror does not have them any more, or does not answer.
    """
    downloads = folder / ".packages"
    downloads.mkdir(parents=True)
    # Without this, apt complains that its own user may not write here.
    command = ["apt-get", "--quiet=2", "--option=APT::Sandbox::User=root", "download", *packages]
    try:
        run_step(command, lambda line: None, downloads)
    except BuildFailed as error:
        raise BuildFailed(f"{error}\nIf apt's lists are old, run apt-get update") from error
    for package in sorted(downloads.iterdir()):
        run_step(["dpkg-deb", "--extract", str(package), str(folder)], lambda line: None)
        package.unlink()
    downloads.rmdir()
