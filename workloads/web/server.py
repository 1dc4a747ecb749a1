"""The server: it answers ``GET /`` after spending CPU time, and ``GET /healthz`` at once, over HTTP/1.1.

Every connection has a thread of its own, so that an idle or slow connection does not hold up others; the number of
requests worked on at the same time is limited. Python runs one thread at a time: a server uses one core at most, and
more load needs more servers.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from workloads.busy import spend_cpu

SILENCE_S = 10.0
"""A connection that sends nothing for this long is closed, whether idle or in the middle of a request."""

MAX_CONNECTIONS = 1000
"""A further connection is closed at once."""


class WorkServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A server that listens once it is made; `serve_forever` runs it and `drain` ends it.

    Parameters
    ----------
    host : str
        Address or name to listen on.
    port : int
        TCP port; 0 lets the system choose one, which `server_address` has.
    threads : int
        Requests worked on at the same time, at least 1; others wait.
    service_s : float
        CPU time of a request in seconds; HTTP itself costs another 0.1 to 0.2 ms.

    Raises
    ------
    OSError
        If the server cannot listen there.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, *, threads: int, service_s: float) -> None:
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self.service_s = service_s
        self.draining = False
        self._connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._workers = threading.BoundedSemaphore(threads)
        self._in_flight = 0
        self._changed = threading.Condition()
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, unless there are too many connections."""
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started; the connection will be closed
            self._connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and free its place afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of the program, which a client that disconnected is not."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def work(self) -> None:
        """Spend the CPU time of a request, once one of the `threads` is free."""
        with self._workers:
            spend_cpu(time.thread_time() + self.service_s)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request that is being answered, for `drain` to wait for."""
        with self._changed:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify_all()

    def drain(self, grace_s: float) -> int:
        """Accept no more connections and wait for the requests in flight; return how many were not finished.

        To be called while another thread is in `serve_forever`.

        Parameters
        ----------
        grace_s : float
            Longest time to wait in seconds.
        """
        self.draining = True
        self.shutdown()
        self.server_close()
        with self._changed:
            self._changed.wait_for(lambda: not self._in_flight, timeout=grace_s)
            return self._in_flight


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: WorkServer
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer goes out in one piece

    def do_GET(self) -> None:
        """Answer a request."""
        with self.server.answering():
            path = self.path.partition("?")[0]
            if path == "/":
                self.server.work()
                self._answer(HTTPStatus.OK, b"done\n")
            elif path == "/healthz":
                self._answer(HTTPStatus.OK, b"ok\n")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"there are / and /healthz\n")
            self.wfile.flush()

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        # A request's body is not read, and must not be mistaken for the next request.
        has_body = self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers
        if has_body or self.server.draining:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: it would cost more than a request does."""
