"""Help of command lines: as people read and copy it, and what they probably meant; `carico-testbed` uses it, too."""

from __future__ import annotations

import re
import textwrap
from argparse import ArgumentParser, HelpFormatter, Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


class Parser(ArgumentParser):
    """A parser with `Help` whose errors about unknown commands, options and choices suggest a known one.

    So do its subcommands' parsers.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"formatter_class": Help, **given})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse the arguments, and refuse unknown ones here, where the usage and the options are the subcommand's."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Add a suggestion to the message, print it with the usage, and exit with code 2."""
        close: list[str] = []
        if match := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            close = get_close_matches(match[1], re.findall(r"[\w-]+", match[2]), n=1)
        elif message.startswith("unrecognized arguments: "):
            # Pytest's options begin with --carico-. Names must be closer than 'preset' is to 'set'. argparse has no
            # public way to look at its options, and the usage lacks those with a short name.
            unknown = re.findall(r"(?<= )--(?:carico-)?([\w-]+)", message)
            names = [name.removeprefix("--") for name in self._option_string_actions if name.startswith("--")]
            close = [f"--{meant}" for one in unknown for meant in get_close_matches(one, names, n=1, cutoff=0.7)]
        super().error(f"{message}, did you mean {' and '.join(map(repr, close))}?" if close else message)


class Help(HelpFormatter):
    """Help in which options and names with hyphens stay whole, so that they can be copied.

    Line breaks of descriptions and epilogs stay; a line that begins with blanks is an entry of a list.
    """

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = [part for line in text.splitlines() for part in _wrapped(line, width - len(indent)) or [""]]
        return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def _wrapped(text: str, width: int) -> list[str]:
    margin = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, width, subsequent_indent=f"{margin}  " if margin else "", break_on_hyphens=False)
