"""Finds the programs of a cluster: in a folder that the user names, among the programs built here, or on the PATH.

Built programs are kept by the version of Go, so they are found only where Go is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.errors import BuildFailed, ClusterError
from testbed.images.programs import PROGRAM_SETS, Programs
from testbed.user_cache import user_cache

PROGRAMS_VARIABLE = "CARICO_PROGRAMS"
"""Environment variable that names a folder of programs, or one given to `carico-testbed images programs --kept`."""
_VERSION_TIMEOUT_S = 10.0


def found_programs(names: Iterable[str], environment: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Return the paths of the programs that are found, by name.

    Parameters
    ----------
    names : iterable of str
    environment : mapping, optional
        Environment variables; the process's by default.

    Raises
    ------
    ClusterError
        If CARICO_PROGRAMS does not name a folder.
    """
    variables = os.environ if environment is None else environment
    folders: list[Path] = []
    if named := variables.get(PROGRAMS_VARIABLE):
        if not Path(named).is_dir():
            what = f"{PROGRAMS_VARIABLE} is {named!r}, which is not a folder"
            raise ClusterError(f"{what}: name the folder of the programs")
        folders += [Path(named), *_built(Path(named))]
    folders += _built(user_cache())
    where = os.pathsep.join([*map(str, folders), variables.get("PATH", os.defpath)])
    found = {name: shutil.which(name, path=where) for name in names}
    return {name: Path(path).absolute() for name, path in found.items() if path is not None}


def version_of(program: Path) -> str:
    """Return the version that a program prints, for example "v1.34.4": the first word that is a number with a dot.

    Raises
    ------
    ClusterError
        If it prints none.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a program that the user has, or that was built here
            [program, "--version"], capture_output=True, text=True, check=True, timeout=_VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterError(f"{program} does not print its version: {error}") from error
    for word in done.stdout.split():
        if word.lstrip("v")[:1].isdigit() and "." in word:
            return word
    raise ClusterError(f"{program} does not print its version but {done.stdout.strip()[:100]!r}")


def _built(kept: Path) -> list[Path]:
    """Return the folders of programs that `carico-testbed images programs` has built in a folder."""
    programs = Programs(kept)
    try:
        places = [programs.place(one) for one in PROGRAM_SETS]
    except BuildFailed:  # no Go
        return []
    return [place for place in places if place.is_dir()]
