"""The extender over HTTP/1.1: kube-scheduler posts to /filter, over mutual TLS or, to try it out, on loopback.

The standard library's threading server: a thread per connection, kept alive; nobody waits for another's handshake,
header or body. The number of connections is limited: where all places are taken, a new one gets that of who has said
nothing for longest, so that nobody is kept out by connections that are held open. What is no valid request is answered
with 400 and a text, and changes nothing.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from carico.config import HttpLimits
from carico.errors import InvalidRequest, NotReady
from carico.https import ServerTls, names_of
from carico.scheduling.extender import Extender
from carico.scheduling.extender_api import read_args, write_result
from carico.scheduling.extender_metrics import ExtenderMetrics

_log = logging.getLogger(__name__)

_PLACE_WITHIN_S = 0.1
"""For the thread of a connection that was cut to end."""


class ExtenderServer:
    """Serves until it is closed, in threads of its own.

    Parameters
    ----------
    extender : Extender
    metrics : ExtenderMetrics
    host, port
        Where to listen; port 0 lets the system choose, see `port`.
    tls : ServerTls or None
        None is plain text; whether that is allowed there is the configuration's business.
    clients : set of str
        A client's certificate must be in one of these names; empty lets every certificate of the CA pass.
    limits : HttpLimits

    Raises
    ------
    OSError
        If nothing can be served there.
    """

    def __init__(
        self,
        extender: Extender,
        metrics: ExtenderMetrics,
        host: str,
        port: int,
        tls: ServerTls | None,
        clients: frozenset[str] = frozenset(),
        limits: HttpLimits = HttpLimits(),  # noqa: B008  frozen
    ) -> None:
        self._server = _Server((host, port), _handler(extender, metrics, clients, limits), tls, limits)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="extender", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def is_alive(self) -> bool:
        """Return whether the thread that accepts connections runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Serve no more; connections are cut, and kube-scheduler asks again for what was not answered."""
        self._server.shutdown()
        self._server.server_close()
        self._server.cut()
        self._thread.join()

    def __enter__(self) -> ExtenderServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], tls: ServerTls | None, limits: HttpLimits
    ) -> None:
        self._tls = tls
        self._handshake_s = limits.handshake_timeout_s
        self._places = threading.BoundedSemaphore(limits.connections)
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


def _handler(
    extender: Extender, metrics: ExtenderMetrics, clients: frozenset[str], limits: HttpLimits
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server: _Server
        wbufsize = -1  # one packet an answer
        disable_nagle_algorithm = True

        def setup(self) -> None:
            """Read the client's certificate once for all that it will ask over the connection."""
            super().setup()
            self._old_at = time.monotonic() + limits.connection_age_s
            self._allowed = (
                not clients
                or not isinstance(self.connection, ssl.SSLSocket)
                or bool(clients & names_of(self.connection.getpeercert()))
            )

        def handle_one_request(self) -> None:
            """Wait long for a request to begin, for connections are kept, and not long for it to be complete."""
            self.connection.settimeout(limits.idle_timeout_s)
            try:
                if not self.rfile.peek(1):  # type: ignore[attr-defined]  # it is a BufferedReader
                    self.close_connection = True
                    return
            except TimeoutError:
                self.close_connection = True
                return
            self.server.spoke(self.connection)
            self.connection.settimeout(limits.request_timeout_s)
            super().handle_one_request()

        def do_POST(self) -> None:
            if self.path != "/filter":
                self._refuse(404, "POST /filter is all there is")
            elif not self._allowed:
                self._refuse(403, "the certificate is not in one of the names that may ask (`clients`)")
            elif (body := self._body()) is not None:
                self._filter(body)

        def _body(self) -> bytes | None:
            text = self.headers.get("Content-Length", "")
            if not (text.isascii() and text.isdigit()) or "Transfer-Encoding" in self.headers:
                self._refuse(411, "a Content-Length is needed")
                return None
            if len(text) > 12 or int(text) > limits.body_bytes:
                self._refuse(413, f"a body of at most {limits.body_bytes} bytes is needed, got {text[:20]}")
                return None
            body = b""
            with suppress(OSError):  # the client is gone, or too slow
                body = self.rfile.read(int(text))
            if len(body) < int(text):
                self._count_bad(400)
                self.close_connection = True
                return None
            return body

        def _filter(self, body: bytes) -> None:
            try:
                content = write_result(extender.filter(read_args(body)))
            except InvalidRequest as error:
                self._refuse(400, str(error), close=False)
            except NotReady as error:
                self._refuse(503, str(error), close=False)
            else:
                self._answer(200, content, "application/json")

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Refuse what the library takes for no request that is served here: no HTTP, or another verb."""
            self._count_bad(code)
            super().send_error(code, message, explain)

        def _count_bad(self, status: int) -> None:
            metrics.attempts.labels("error").inc()
            metrics.bad_requests.labels(str(int(status))).inc()

        def _refuse(self, status: int, why: str, close: bool = True) -> None:
            self._count_bad(status)
            self.close_connection |= close  # what is left of the request is not read
            self._answer(status, f"{why}\n".encode(), "text/plain; charset=utf-8")

        def _answer(self, status: int, content: bytes, kind: str) -> None:
            self.close_connection |= time.monotonic() >= self._old_at
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Decisions are in the journal and counted; a line each would be too much."""

    return Handler
