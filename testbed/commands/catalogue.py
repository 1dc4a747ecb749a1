"""``carico-testbed list``: the scenarios, schedulers and settings that can be used."""

from __future__ import annotations

import argparse

from carico.commands.output import of_output, print_json, wants_json
from testbed.commands import HELP
from testbed.report.listing import KINDS, listing, listing_as_json


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    lister = commands.add_parser(
        "list",
        help=HELP["list"],
        description="Shows the scenarios of the catalogue, the schedulers and CARICO's variants, what a scenario of "
        "your own may have, presets, and the settings of the simulated cluster with their defaults.",
    )
    lister.add_argument(
        "what",
        metavar="WHAT",
        nargs="?",
        choices=tuple(KINDS),
        help=f"one of {', '.join(KINDS)} (default: all of them)",
    )
    of_output(lister)
    lister.set_defaults(run=_list)


def _list(options: argparse.Namespace) -> int:
    chosen = () if options.what is None else (options.what,)
    if wants_json(options):
        print_json(listing_as_json(*chosen))
    else:
        print("\n".join(listing(*chosen)))
    return 0
