"""Places for connections: a limited number, and whoever has been silent for longest makes room for one more."""

from __future__ import annotations

import socket
import threading
from collections import OrderedDict
from contextlib import suppress

_GONE_WITHIN_S = 0.1
"""How long to wait until the thread of a connection that was cut has left its place."""


class Places:
    """Where connections are kept as long as they last.

    Parameters
    ----------
    number : int
        How many there are.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._open: OrderedDict[socket.socket, None] = OrderedDict()
        """The connection that has been silent for longest comes first."""
        self._cut: set[socket.socket] = set()
        """Connections that were cut, and whose threads have not noticed yet."""
        self._coming = 0
        """Connections that are being given a place."""
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """Return how many places are taken."""
        with self._changed:
            return self._taken()

    def take(self, connection: socket.socket) -> bool:
        """Give a connection a place, if necessary that of the one that has been silent for longest.

        Returns
        -------
        bool
            Whether there is a place; none is left if the connections that were cut do not end in time.
        """
        with self._changed:
            self._coming += 1
            try:
                # Each of those who wait cuts one, since others may come first and take the place that it leaves.
                if len(self._open) + self._coming > self._number:
                    self._cut_one()
                if not self._changed.wait_for(lambda: self._taken() < self._number, _GONE_WITHIN_S):
                    return False
                self._open[connection] = None
            finally:
                self._coming -= 1
        return True

    def spoke(self, connection: socket.socket) -> None:
        """Note that a connection has received something."""
        with self._changed:
            if connection in self._open:
                self._open.move_to_end(connection)

    def leave(self, connection: socket.socket) -> None:
        """Free a connection's place; it may have none."""
        with self._changed:
            self._open.pop(connection, None)
            self._cut.discard(connection)
            self._changed.notify_all()

    def cut_all(self) -> None:
        """Cut all connections."""
        with self._changed:
            while self._open:
                self._cut_one()

    def _taken(self) -> int:
        return len(self._open) + len(self._cut)

    def _cut_one(self) -> None:
        if not self._open:
            return
        connection, _ = self._open.popitem(last=False)
        self._cut.add(connection)
        with suppress(OSError):
            # TLS's own shutdown would take the connection away from the thread that reads from it.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
