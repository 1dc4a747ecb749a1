"""What commands print: tables as wide as the terminal, and with the option ``-o`` JSON instead, also `carico-testbed`.

One JSON document is printed, and nothing else, on standard output. What is unknown is null; names of fields are stable
(docs/reference/json.md).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from typing import Any

NARROWEST = 80
SAME = "the same, with null for what is unknown"


def of_output(parser: argparse.ArgumentParser, about: str = SAME, *, flag: bool = False) -> None:
    """Declare the option.

    Parameters
    ----------
    parser : argparse.ArgumentParser
    about : str, optional
        What there is to say about the JSON.
    flag : bool, optional
        Whether ``--json`` means the same, as it did before there was ``-o``.
    """
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "json"],
        default="table",
        help=f"json prints one JSON object instead: {about} (default: table)",
    )
    if flag:
        parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as -o json")


def wants_json(options: argparse.Namespace) -> bool:
    """Return whether JSON is wanted."""
    return bool(options.output == "json")


def table_width() -> int:
    """Return how many columns tables may have: those of the terminal, or 80 if it has fewer, or there is none."""
    return max(NARROWEST, shutil.get_terminal_size().columns)


def print_json(value: Any) -> None:
    """Print dataclasses, structs and what JSON has, on a line of ASCII; what is not finite is null. Needs msgspec.

    JSON writes any character in ASCII, too, so that none that is in a name can move a terminal's cursor.
    """
    import msgspec

    text = msgspec.json.encode(value).decode()
    print(re.sub(r"[^ -~]", lambda character: json.dumps(character[0])[1:-1], text))
