"""The command `carico-testbed`, also ``python -m testbed``: checks for missing packages, then runs the command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from carico import __version__
from testbed.errors import UNPREPARED, MissingExtra
from testbed.requirements import check_installed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, see `testbed.cli.main`; if packages are missing, say how to install them and return 4."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if list(given) == ["--version"]:
            sys.stdout.write(f"carico-testbed {__version__}\n")
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


if __name__ == "__main__":
    sys.exit(main())
