"""What the testbed needs beyond numpy: the packages of its extra, which a plain installation of CARICO leaves out."""

from __future__ import annotations

from importlib.util import find_spec

from testbed.errors import MissingExtra

MODULES = {"msgspec": "msgspec", "scipy": "scipy", "simpy": "simpy", "yaml": "pyyaml"}
"""What is imported, and the package that has it."""


def check_installed() -> None:
    """Check that the extra `testbed` is installed.

    Raises
    ------
    MissingExtra
        If one of its packages is not there; the message says how to get them.
    """
    missing = [package for module, package in MODULES.items() if find_spec(module) is None]
    if missing:
        raise MissingExtra(
            f"the testbed needs {', '.join(missing)}: pip install 'carico-testbed[testbed]', "
            f"or in a clone pip install '.[testbed]'"
        )
