"""Readers of command-line arguments: each returns a value, or raises argparse's error with the value wanted."""

from __future__ import annotations

import argparse
import math
import re


def whole_number(text: str) -> int:
    """Read a whole number from 0 on."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"a whole number from 0 on is needed, got {text!r}")
    return int(text)


def pattern(text: str) -> re.Pattern[str]:
    """Read a regular expression that is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("a pattern is needed; an empty one matches every process")
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"a regular expression is needed, got {text!r}: {error}") from None


def seconds(text: str) -> float:
    """Read a number of seconds from 1 on."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"a number of seconds from 1 on is needed, got {text!r}")
    return number
