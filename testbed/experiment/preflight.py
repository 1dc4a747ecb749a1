"""Checks before anything is created or run; everything that would fail later is reported in one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import TestbedError
from testbed.requirements import Problem, missing_packages
from testbed.results import runs_folder

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider


def missing_prerequisites(
    provider: Callable[[], ClusterProvider],
    shared: bool = False,
    lacking: Callable[[], list[Problem]] = list,
) -> list[Problem]:
    """Return what is missing to run anything: packages, or else the problems that the provider's preflight finds.

    Parameters
    ----------
    provider : callable
        Returns the provider; called only if its packages are installed.
    shared : bool
        Whether this is one of several processes. Such a process does not use a provider with `shared_hardware`, so its
        preflight is left out.
    lacking : callable
        Returns all that is known to be missing if the provider cannot be made, which tells the first reason only.
    """
    packages = missing_packages()
    if packages is not None:
        return lacking() or [packages]
    try:
        asked = provider()
        return [] if shared and asked.shared_hardware else list(asked.preflight())
    except TestbedError as error:
        return lacking() or [Problem(str(error))]


def output_problems(results: Path | None, root: Path) -> list[Problem]:
    """Return why the results cannot be written, or the run cannot be recorded; needs the testbed's packages.

    Parameters
    ----------
    results : Path or None
        The results file, if one is asked for.
    root : Path
        The folder that holds, or will hold, `.carico`.
    """
    from testbed.results.files import check_folder
    from testbed.results.store import check_writable

    runs = runs_folder(root)
    found = []
    if results is not None:
        try:
            check_writable(results)
        except TestbedError as error:
            found.append(Problem(str(error)))
    try:
        check_folder(runs)
    except TestbedError as error:
        found.append(Problem(str(error)))
    return found


def listed(problems: Iterable[Problem]) -> str:
    r"""Return one message for all problems.

    Examples
    --------
    >>> print(listed([Problem("no kind", "install it"), Problem("no Docker", "start it")]))
    2 problems, nothing was run:
      - no kind: install it
      - no Docker: start it
    >>> print(listed([Problem("docker said:\nno"), Problem("no kind")]))
    2 problems, nothing was run:
      - docker said:
        no
      - no kind
    """
    texts = [str(problem) for problem in problems]
    if len(texts) == 1:
        return texts[0]
    # What programs say may have several lines.
    return "\n".join(
        [f"{len(texts)} problems, nothing was run:", *(f"  - {text}".replace("\n", "\n    ") for text in texts)]
    )
