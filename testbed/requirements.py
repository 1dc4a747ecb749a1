"""The packages that a run needs: the testbed's own, and those of extras for clusters, frames, reports, figures, Dask.

CARICO itself needs none of them. Missing packages are reported as a `Problem`, like problems that a provider finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from testbed.errors import MissingExtra

TESTBED = {
    "filelock": "filelock",
    "msgspec": "msgspec",
    "scipy": "scipy",
    "shtab": "shtab",
    "simpy": "simpy",
    "tqdm": "tqdm",
    "yaml": "pyyaml",
}
CLUSTER = TESTBED | {
    "cryptography": "cryptography",
    "grpc": "grpcio",
    "h2": "h2",
    "inotify_simple": "inotify_simple",
    "kubernetes": "kubernetes",
    "prometheus_client": "prometheus-client",
    "tenacity": "tenacity",
    "requests": "requests",
    "urllib3": "urllib3",
}
XEN = CLUSTER | {"asyncssh": "asyncssh", "XenAPI": "XenAPI"}
MODULES = {
    "testbed": TESTBED,
    "cluster": CLUSTER,
    "xen": XEN,
    "analysis": TESTBED | {"pandas": "pandas"},
    "report": TESTBED | {"jinja2": "jinja2"},
    "figures": TESTBED | {"matplotlib": "matplotlib"},
    "scale": TESTBED | {"distributed": "distributed"},
}
"""By what needs them, the testbed itself or an extra: the imported modules, and the package that provides each."""
_WHO = {
    "testbed": "the testbed needs",
    "cluster": "a real cluster needs",
    "xen": "a cluster of Xen guests needs",
    "analysis": "results as pandas frames need",
    "report": "a report needs",
    "figures": "a figure needs",
    "scale": "a Dask cluster needs",
}


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
    """What the user should do; may be empty if `what` says it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}" if self.remedy else self.what


def missing_packages(extra: str = "testbed") -> Problem | None:
    """Return the problem that packages of an extra are not installed; None if all are."""
    missing = [package for module, package in MODULES[extra].items() if find_spec(module) is None]
    if not missing:
        return None
    needs = f"{_WHO[extra]} {', '.join(missing)}"
    if extra == "testbed":  # depended on, but left out, as the images of nodes leave it out
        return Problem(needs, "pip install carico-testbed, or in a clone pip install .")
    return Problem(
        needs,
        f"pip install 'carico-testbed[{extra}]', or in a clone pip install '.[{extra}]'",
    )


def check_installed(extra: str = "testbed") -> None:
    """Check that an extra is installed.

    Raises
    ------
    MissingExtra
        If one of its packages is not installed; the message says how to install them.
    """
    problem = missing_packages(extra)
    if problem is not None:
        raise MissingExtra(str(problem))
