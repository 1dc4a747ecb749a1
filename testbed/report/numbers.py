"""Numbers as people read them in text and tables; imports no package of an extra, so that it always works."""

from __future__ import annotations

import math
import textwrap

WIDTH = 80
"""Columns of all text."""


def wrapped(sentence: str, indent: str = "  ") -> list[str]:
    """Return a sentence as lines; options and names stay whole, so that they can be copied.

    Parameters
    ----------
    sentence : str
    indent : str
        Before the first line; further lines have two blanks more.
    """
    return textwrap.wrap(
        sentence,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def titled(title: str) -> list[str]:
    """Return a title as lines of at most 80 columns; names with hyphens are not broken there.

    Examples
    --------
    >>> titled("single-node-contention · 10 pods · 1 node · kube-scheduler:cpu=500m,memory=750Mi · pi-2000")
    ['single-node-contention · 10 pods · 1 node · kube-scheduler:cpu=500m,memory=750Mi', '  · pi-2000']
    """
    return textwrap.wrap(title, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, in the plural unless the number is 1.

    Examples
    --------
    >>> counted(1, "pod"), counted(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def comparisons(number: int) -> str:
    """Return what verdicts are corrected for.

    Examples
    --------
    >>> comparisons(1), comparisons(2), comparisons(3)
    ('the one comparison', 'both comparisons', 'all 3 comparisons')
    """
    return {1: "the one comparison", 2: "both comparisons"}.get(number, f"all {number} comparisons")


def figure(value: float | None, unit: str = "") -> str:
    """Return a number as people write it, with four digits and its unit.

    Examples
    --------
    >>> figure(51.9312, "s"), figure(0.00012), figure(12345.6), figure(None)
    ('51.93 s', '0.00012', '12346', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    digits = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{digits} {unit}".rstrip()


def seconds(value: float | None) -> str:
    """Return seconds for a column of seconds, with as many decimals as an eye can compare.

    Examples
    --------
    >>> seconds(7.7), seconds(127.44), seconds(1234.5)
    ('7.70', '127.4', '1234')
    """
    if value is None:
        return "-"
    return f"{value:.{2 if value < 100 else 1 if value < 1000 else 0}f}"
