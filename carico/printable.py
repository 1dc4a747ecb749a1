"""Text that is safe to print. What servers, nodes and files say must not move a terminal's cursor or forge lines."""

from __future__ import annotations

from typing import Any, TextIO


def printable(text: object, *, lines: bool = False) -> str:
    r"""Return the text of an object with a question mark for every character that is not printable.

    Parameters
    ----------
    text : object
    lines : bool, optional
        Whether line breaks stay.

    Examples
    --------
    >>> printable("node-1\x1b[2J\nnode-2"), printable("one\r\ntwo", lines=True)
    ('node-1?[2J?node-2', 'one?\ntwo')
    """
    return "".join(c if c.isprintable() or (lines and c == "\n") else "?" for c in str(text))


def printable_lines(text: str) -> str:
    r"""Return a text as `printable` does, but line breaks and tabs stay.

    Examples
    --------
    >>> printable_lines("one\ttwo\r\n\x1b[2J")
    'one\ttwo?\n?[2J'
    """
    return "\t".join(printable(part, lines=True) for part in text.split("\t"))


def shortened(text: object, width: int) -> str:
    """Return the text of an object as `printable` does, cut in the middle if it is wider than that.

    Names differ at their ends: in a namespace or a region, and in a number or a hash.

    Parameters
    ----------
    text : object
    width : int
        At least 1.

    Examples
    --------
    >>> shortened("jobs/a-very-long-name-90a1b2c3", 20), shortened("jobs/pi", 20)
    ('jobs/a-ver…-90a1b2c3', 'jobs/pi')
    """
    whole = printable(text)
    if len(whole) <= width:
        return whole
    end = (width - 1) // 2
    return f"{whole[: width - 1 - end]}…{whole[len(whole) - end :]}"


class PrintableStream:
    r"""A text stream that writes what is not printable as a question mark; line breaks and tabs stay.

    Parameters
    ----------
    stream : text stream
        What is written to; everything else about the stream is as before.

    Examples
    --------
    >>> import sys
    >>> print("a\x1b[31mb", file=PrintableStream(sys.stdout))
    a?[31mb
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, and return its length."""
        self._stream.write(printable_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
