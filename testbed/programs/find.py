"""Finds the programs of a cluster: in a folder that the user names, among those built here, or where commands are.

What was built is known by the version of Go, so that only who has Go finds it.
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

VARIABLE = "CARICO_PROGRAMS"
"""Names the user's folder: programs, or what `carico-testbed images programs --kept` was told."""
_VERSION_TIMEOUT_S = 10.0


def found_programs(names: Iterable[str], environment: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Return where the programs are; those that are not found are left out.

    Parameters
    ----------
    names : iterable of str
    environment : mapping, optional
        Of variables; the process's by default.

    Raises
    ------
    ClusterError
        If the variable names what is no folder.
    """
    variables = os.environ if environment is None else environment
    folders: list[Path] = []
    if named := variables.get(VARIABLE):
        if not Path(named).is_dir():
            raise ClusterError(f"{VARIABLE} is {named!r}, which is no folder: name the one that has the programs")
        folders += [Path(named), *_built(Path(named))]
    folders += _built(user_cache())
    where = os.pathsep.join([*map(str, folders), variables.get("PATH", os.defpath)])
    found = {name: shutil.which(name, path=where) for name in names}
    return {name: Path(path).absolute() for name, path in found.items() if path is not None}


def version_of(program: Path) -> str:
    """Return the version that a program says it is, for example "v1.34.4": the first word with a digit after a dot.

    Raises
    ------
    ClusterError
        If it says none.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a program that the user has, or that was built here
            [program, "--version"], capture_output=True, text=True, check=True, timeout=_VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterError(f"{program} does not say its version: {error}") from error
    for word in done.stdout.split():
        if word.lstrip("v")[:1].isdigit() and "." in word:
            return word
    raise ClusterError(f"{program} does not say its version but {done.stdout.strip()[:100]!r}")


def _built(kept: Path) -> list[Path]:
    """The folders that `carico-testbed images programs` has made where it keeps them."""
    programs = Programs(kept)
    try:
        places = [programs.place(one) for one in PROGRAM_SETS]
    except BuildFailed:  # no Go
        return []
    return [place for place in places if place.is_dir()]
