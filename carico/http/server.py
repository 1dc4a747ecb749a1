"""The HTTP server of CARICO's processes: a thread for each connection, and a limit on the number of connections.

No client waits for another's handshake, header or body. When the limit is reached, a new connection replaces one of
the peer that has the most, namely the one that has been silent for longest: neither do idle connections keep a client
out, nor does a client that opens many. A peer is the owner of a certificate, or an address where none is shown. Over
TLS, a connection counts only after its handshake: until then it has one of a few places for handshakes, which only
other handshakes compete for.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
from contextlib import suppress
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from carico.errors import InvalidConfig
from carico.http.places import Places
from carico.http.tls import ServerTls, names_of
from carico.logs import FewLines

_log = logging.getLogger(__name__)

HANDSHAKES = 16
"""The most simultaneous handshakes, which take milliseconds: kube-scheduler, kubelets and Prometheus need a few. A
further one replaces one of the address that has the most."""
MOST_HEAD_BYTES = 1 << 14
"""The longest head of a request, of all its lines. Tokens and long paths take a few KiB; http.server alone would read 6
MiB from each connection, and parse copies of that."""
_LOOK_EVERY_S = 5.0
"""How often the thread that accepts connections checks whether it should end; `close` wakes it."""


class HttpServer(ThreadingHTTPServer):
    """Serves HTTP/1.1, plain or over TLS, in threads of its own until it is closed.

    Parameters
    ----------
    name : str
        A name for the server, for threads and messages.
    host, port
        Where to listen; port 0 lets the system choose, see `port`.
    handler : type
        Answers requests; calls `spoke` whenever its connection has received something.
    tls : ServerTls or None
        None is plain text.
    connections : int
        The most simultaneous connections; over TLS, handshakes are limited separately.
    handshake_s : float
        The time limit for a handshake, seconds.

    Raises
    ------
    InvalidConfig
        If the address cannot be served.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        handler: type[RequestHandler],
        *,
        tls: ServerTls | None,
        connections: int,
        handshake_s: float,
    ) -> None:
        self._tls = tls
        self._handshake_s = handshake_s
        self._places = Places(connections)
        self._handshakes = Places(HANDSHAKES)
        self._failed = FewLines(_log, logging.INFO, f"{name}: a connection failed")
        self._refused = FewLines(_log, logging.WARNING, f"{name}: a connection was refused")
        address = host.strip("[]")
        if ":" in address:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address, port), handler)
        except OSError as error:
            raise InvalidConfig(
                f"{name}: nothing can be served on {host}:{port}: {error.strerror}; is the port taken?"
            ) from error
        self._thread = threading.Thread(target=self.serve_forever, args=(_LOOK_EVERY_S,), name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self.server_address[1])

    def is_alive(self) -> bool:
        """Return whether the thread that accepts connections runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop serving, and cut all connections."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts connections
        self.shutdown()
        self.server_close()
        self._handshakes.cut_all()  # first: a connection keeps this place until it has the other
        self._places.cut_all()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.close()

    def spoke(self, connection: socket.socket) -> None:
        """Note that a connection has received something."""
        self._places.spoke(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a place and a thread."""
        request.settimeout(self._handshake_s)
        places = self._places
        if self._tls is not None:
            places = self._handshakes
            request = self._tls.current().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        if not places.take(request, client_address[0]):
            self._refuse(request, client_address)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no thread left
            places.leave(request)
            self.shutdown_request(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; the handshake is made in its thread, where it delays no other connection."""
        try:
            if self._tls is not None:
                self._tls.shake_hands(request)  # the time-out covers the whole handshake
                if not self._places.take(request, names_of(request.getpeercert()) or client_address[0]):
                    self._refuse(request, client_address)
                    return
                self._handshakes.leave(request)
            super().process_request_thread(request, client_address)
        except OSError as error:
            self._failed.add(str(error), client=client_address[0])
            self.shutdown_request(request)
        finally:
            self._handshakes.leave(request)
            self._places.leave(request)

    def _refuse(self, request: Any, client_address: Any) -> None:
        self._refused.add("too many are open", client=client_address[0])
        self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log how a connection broke off, for debugging only: clients come and go."""
        _log.debug("a connection broke off", exc_info=True, extra={"client": client_address[0]})


class RequestHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection of an `HttpServer`; subclasses have the methods."""

    protocol_version = "HTTP/1.1"
    server: HttpServer

    def setup(self) -> None:
        """Bound the heads of requests."""
        super().setup()
        self.rfile = self._head = _BoundedHead(self.rfile.detach())

    def handle_one_request(self) -> None:
        """Answer a request; one whose head is too long is refused with 431 before it is parsed."""
        self._head.begin()
        super().handle_one_request()

    def answer(self, status: int, content: bytes, kind: str, retry_after_s: int | None = None) -> None:
        """Send an answer with a content type; it says so if the connection ends with it."""
        self.send_response(status)
        if retry_after_s is not None:
            self.send_header("Retry-After", str(retry_after_s))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: servers count requests, or keep a journal of them."""


class _BoundedHead(io.BufferedReader):
    """What a client sends; lines, which heads are made of, have a limit. Whoever reads a body limits that."""

    _left = 0

    def begin(self) -> None:
        """Begin with another request."""
        self._left = MOST_HEAD_BYTES

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line of a head.

        Raises
        ------
        HTTPException
            Beyond the limit. http.server answers with 431.
        """
        if self._left <= 0:
            raise HTTPException(f"the head of a request has at most {MOST_HEAD_BYTES} bytes")
        line = super().readline(self._left if size is None or size < 0 else min(size, self._left))
        self._left -= len(line)
        return line
