"""The HTTP server of CARICO's processes: a thread for each connection, and so many connections at most.

Nobody waits for another's handshake, header or body. Where all places are taken, a new connection gets that of who has
said nothing for longest, so that nobody is kept out by connections that are held open.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections import OrderedDict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from carico.http.tls import ServerTls

_log = logging.getLogger(__name__)

_PLACE_WITHIN_S = 0.1
"""For the thread of a connection that was cut to end."""


class HttpServer(ThreadingHTTPServer):
    """Serves HTTP/1.1, plain or over TLS.

    Parameters
    ----------
    address : tuple of str and int
        Where to listen.
    handler : type
        Answers; calls `spoke` whenever something came.
    tls : ServerTls or None
        None is plain text.
    connections : int
        At a time.
    handshake_s : float
        For all of a handshake, seconds.

    Raises
    ------
    OSError
        If nothing can be served there.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        tls: ServerTls | None,
        connections: int,
        handshake_s: float,
    ) -> None:
        self._tls = tls
        self._handshake_s = handshake_s
        self._places = threading.BoundedSemaphore(connections)
        self._open: OrderedDict[socket.socket, None] = OrderedDict()
        """Who has said nothing for longest first."""
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def cut(self) -> None:
        """End all connections."""
        while self._cut_one():
            pass

    def spoke(self, connection: socket.socket) -> None:
        """Note that a connection is new, or something came over it."""
        with self._lock:
            self._open[connection] = None
            self._open.move_to_end(connection)

    def _cut_one(self) -> bool:
        with self._lock:
            if not self._open:
                return False
            connection, _ = self._open.popitem(last=False)
        with suppress(OSError):
            # Not TLS's own, which would pull it from under the thread that reads.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, and a place."""
        if not self._places.acquire(blocking=False):
            self._cut_one()
            if not self._places.acquire(timeout=_PLACE_WITHIN_S):
                _log.warning("a connection was refused: there are too many", extra={"client": client_address[0]})
                self.shutdown_request(request)
                return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no thread left
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; the handshake is here, where it blocks nobody else."""
        try:
            request.settimeout(self._handshake_s)
            if self._tls is not None:
                request = self._tls.current().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            self.spoke(request)
            if isinstance(request, ssl.SSLSocket):
                request.do_handshake()  # within the time-out as a whole
            super().process_request_thread(request, client_address)
        except OSError as error:
            _log.info("a connection failed: %s", error, extra={"client": client_address[0]})
            self.shutdown_request(request)
        finally:
            with self._lock:
                self._open.pop(request, None)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what a connection ended with; clients that go away are no news."""
        _log.debug("a connection broke off", exc_info=True, extra={"client": client_address[0]})
