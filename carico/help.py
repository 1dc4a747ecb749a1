"""Help of command lines as people read and copy it; `carico-testbed` uses it, too."""

from __future__ import annotations

import textwrap
from argparse import HelpFormatter


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
