"""What a run needs: the packages of the extra `testbed`, which a plain installation of CARICO leaves out.

A provider says in the same way, as a `Problem`, what else is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from testbed.errors import MissingExtra

MODULES = {"msgspec": "msgspec", "scipy": "scipy", "simpy": "simpy", "yaml": "pyyaml"}
"""What is imported, and the package that has it."""


@dataclass(frozen=True)
class Problem:
    """Why something cannot be run.

    Examples
    --------
    >>> print(Problem("kind is not installed", "pip install kind"))
    kind is not installed: pip install kind
    """

    what: str
    remedy: str = ""
    """What to do about it; may be empty if `what` says it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}" if self.remedy else self.what


def missing_packages() -> Problem | None:
    """Return which packages of the extra `testbed` are not installed, if any."""
    missing = [package for module, package in MODULES.items() if find_spec(module) is None]
    if not missing:
        return None
    return Problem(
        f"the testbed needs {', '.join(missing)}",
        "pip install 'carico-testbed[testbed]', or in a clone pip install '.[testbed]'",
    )


def check_installed() -> None:
    """Check that the extra `testbed` is installed.

    Raises
    ------
    MissingExtra
        If one of its packages is not there; the message says how to get them.
    """
    problem = missing_packages()
    if problem is not None:
        raise MissingExtra(str(problem))
