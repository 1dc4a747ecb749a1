"""The command `carico-testbed`, also ``python -m testbed``: checks for missing packages, then runs the command."""

from __future__ import annotations

import signal
import sys
import textwrap
from collections.abc import Sequence

from carico import __version__
from testbed.commands import DESCRIPTION, HELP
from testbed.errors import UNPREPARED, MissingExtra
from testbed.requirements import check_installed, missing_packages


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, see `testbed.cli.main`; if packages are missing, say how to install them and return 4."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if list(given) == ["--version"]:
            sys.stdout.write(f"carico-testbed {__version__}\n")
            return 0
        problem = missing_packages()
        if problem is not None and set(given) & {"-h", "--help"}:
            sys.stdout.write(_help(str(problem)))
            return 0
        check_installed()
        from testbed.cli import main as run

        return run(given)
    except MissingExtra as error:
        sys.stderr.write(f"carico-testbed: {error}\n")
        return UNPREPARED
    except KeyboardInterrupt:
        # Ctrl-C before the command's own handler was installed.
        return 128 + signal.SIGINT


def _help(problem: str) -> str:
    """Return what the commands are for, where the packages that explain their options are not installed."""
    lines = [f"  {name:10}  {what}" for name, what in HELP.items()]
    head = textwrap.wrap(DESCRIPTION, 80)
    return "\n".join(["usage: carico-testbed COMMAND ...", "", *head, "", "commands:", *lines, "", f"{problem}\n"])


if __name__ == "__main__":
    sys.exit(main())
