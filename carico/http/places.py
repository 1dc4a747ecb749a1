"""Places for connections: a limited number, and the peer that has most of them makes room for one more.

So no peer can take the place of another that has fewer, however many connections it opens and however fast.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
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
        self._open: OrderedDict[socket.socket, Hashable] = OrderedDict()
        """The peer of every connection; the connection that has been silent for longest comes first."""
        self._cuts: set[socket.socket] = set()
        """Connections that were cut, and whose threads have not noticed yet."""
        self._coming: Counter[Hashable] = Counter()
        """Connections that are being given a place, by peer."""
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """Return how many places are taken."""
        with self._changed:
            return self._taken()

    def take(self, connection: socket.socket, peer: Hashable) -> bool:
        """Give a connection a place, if necessary that of another one.

        Of the peer with the most connections, the one that has been silent for longest is cut; the new connection
        counts for its peer, which comes first among equals.

        Parameters
        ----------
        connection : socket
        peer : hashable
            Whose connection it is: an address, or the names in a certificate.

        Returns
        -------
        bool
            Whether there is a place; none is left if the connections that were cut do not end in time.
        """
        with self._changed:
            self._coming[peer] += 1
            try:
                # Each of those who wait cuts one, since others may come first and take the place that it leaves.
                if len(self._open) + self._coming.total() > self._number:
                    self._make_room(peer)
                if not self._changed.wait_for(lambda: self._taken() < self._number, _GONE_WITHIN_S):
                    return False
                self._open[connection] = peer
            finally:
                self._coming -= Counter([peer])  # which drops what is zero
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
            self._cuts.discard(connection)
            self._changed.notify_all()

    def cut_all(self) -> None:
        """Cut all connections."""
        with self._changed:
            while self._open:
                self._cut(next(iter(self._open)))

    def _taken(self) -> int:
        return len(self._open) + len(self._cuts)

    def _make_room(self, coming: Hashable) -> None:
        """Cut a connection of the peer that has the most, if that is not one whose other newcomers wait already."""
        held = Counter(self._open.values())
        own, most = held[coming] + self._coming[coming], max(held.values(), default=0)
        if own >= most and held[coming]:
            most_has = {coming}
        elif not held or (own >= most and self._coming[coming] > 1):
            return
        else:
            most_has = {peer for peer, number in held.items() if number == most}
        self._cut(next(connection for connection, peer in self._open.items() if peer in most_has))

    def _cut(self, connection: socket.socket) -> None:
        del self._open[connection]
        self._cuts.add(connection)
        with suppress(OSError):
            # TLS's own shutdown would take the connection away from the thread that reads from it.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
