"""``carico-testbed clean``: remove the real clusters that no process uses."""

from __future__ import annotations

import argparse

from testbed.commands import HELP
from testbed.providers import makers


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    clean = commands.add_parser(
        "clean",
        help=HELP["clean"],
        description="Removes the real clusters that the testbed has made on this machine and that no process uses: "
        "kept clusters, and those of killed runs.",
    )
    clean.set_defaults(run=_clean)


def _clean(options: argparse.Namespace) -> int:
    known = makers()
    from testbed.real.lifecycle import sweep
    from testbed.real.registry import Registry

    registry = Registry()
    with registry.locked():
        said = list(sweep(registry, known, kept=True))
    print("\n".join(said) if said else "no cluster is left")
    return 0
