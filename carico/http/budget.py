"""A budget of bytes that all connections of a server share, so that many large requests do not fill the memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ByteBudget:
    """Lends bytes as long as there are any; nobody waits for them.

    Parameters
    ----------
    total : int
        How many bytes may be lent at a time.

    Examples
    --------
    >>> budget = ByteBudget(100)
    >>> with budget.lent(60) as first, budget.lent(60) as second:
    ...     first, second
    (True, False)
    >>> with budget.lent(60) as third:
    ...     third
    True
    """

    def __init__(self, total: int) -> None:
        self._left = total
        self._lock = threading.Lock()

    @contextmanager
    def lent(self, count: int) -> Iterator[bool]:
        """Lend bytes for the length of a block, and yield whether there were enough."""
        with self._lock:
            enough = count <= self._left
            if enough:
                self._left -= count
        try:
            yield enough
        finally:
            if enough:
                with self._lock:
                    self._left += count
