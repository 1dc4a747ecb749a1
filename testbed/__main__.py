"""The command `carico-testbed`, also ``python -m testbed``: says what is missing, else leaves all to `testbed.cli`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from testbed.errors import MissingExtra
from testbed.requirements import check_installed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, see `testbed.cli.main`; without the packages it needs, say how to get them and return 1."""
    try:
        check_installed()
    except MissingExtra as error:
        sys.stderr.write(f"carico-testbed: {error}\n")
        return 1
    from testbed.cli import main as run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
