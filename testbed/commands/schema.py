"""``carico-testbed schema``: print the JSON Schema of a file that runs leave."""

from __future__ import annotations

import argparse

from testbed.commands import HELP
from testbed.results.json_schema import FILES, text_of


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    schema = commands.add_parser(
        "schema",
        help=HELP["schema"],
        description="Prints the JSON Schema of a file that runs leave, for programs that read it.",
        epilog="\n".join(["files:", *(f"  {name}: {what}" for name, (what, _) in FILES.items())]),
    )
    schema.add_argument(
        "file",
        metavar="FILE",
        choices=tuple(FILES),
        nargs="?",
        default="result",
        help=f"one of {', '.join(FILES)} (default: result)",
    )
    schema.set_defaults(run=_schema)


def _schema(options: argparse.Namespace) -> int:
    print(text_of(options.file), end="")
    return 0
