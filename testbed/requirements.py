"""What a run needs: the packages of the extra `testbed` (`cluster` for real ones), which CARICO itself does without.

A provider says in the same way, as a `Problem`, what else is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from testbed.errors import MissingExtra

TESTBED = {"msgspec": "msgspec", "scipy": "scipy", "simpy": "simpy", "yaml": "pyyaml"}
CLUSTER = TESTBED | {
    "cryptography": "cryptography",
    "grpc": "grpcio",
    "h2": "h2",
    "kubernetes": "kubernetes",
    "prometheus_client": "prometheus-client",
    "tenacity": "tenacity",
}
MODULES = {"testbed": TESTBED, "cluster": CLUSTER}
"""By extra, what is imported, and the package that has it."""


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


def missing_packages(extra: str = "testbed") -> Problem | None:
    """Return which packages of an extra are not installed, if any."""
    missing = [package for module, package in MODULES[extra].items() if find_spec(module) is None]
    if not missing:
        return None
    what = "the testbed needs" if extra == "testbed" else "a real cluster needs"
    return Problem(
        f"{what} {', '.join(missing)}",
        f"pip install 'carico-testbed[{extra}]', or in a clone pip install '.[{extra}]'",
    )


def check_installed(extra: str = "testbed") -> None:
    """Check that an extra is installed.

    Raises
    ------
    MissingExtra
        If one of its packages is not there; the message says how to get them.
    """
    problem = missing_packages(extra)
    if problem is not None:
        raise MissingExtra(str(problem))
