"""Text that is safe to print. What servers, nodes and files say must not move a terminal's cursor or forge lines."""

from __future__ import annotations


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
