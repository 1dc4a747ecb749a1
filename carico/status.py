"""/healthz, /readyz and /metrics of a CARICO process, over plain HTTP on a port of their own; needs prometheus-client.

Healthy: the process can go on. Ready: it does what others need it for. Nothing here changes anything.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

Check = Callable[[], str]
"""Returns why not; an empty text means yes."""


class StatusServer:
    """Serves until it is closed, in a thread of its own.

    Parameters
    ----------
    registry : prometheus_client.CollectorRegistry
        What /metrics shows.
    healthy, ready : callable
        Return why the process is not; an empty text means that it is.
    host, port
        Where to listen; port 0 lets the system choose, see `port`.

    Raises
    ------
    OSError
        If nothing can be served there.
    """

    def __init__(
        self, registry: CollectorRegistry, healthy: Check, ready: Check, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        checks = {"/healthz": healthy, "/readyz": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0  # a client that connects and says nothing
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                elif self.path in checks:
                    why = checks[self.path]()
                    self._answer(503 if why else 200, (why or "ok").encode() + b"\n", "text/plain; charset=utf-8")
                else:
                    self._answer(404, b"try /healthz, /readyz or /metrics\n", "text/plain; charset=utf-8")

            def _answer(self, code: int, body: bytes, kind: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Probes come every few seconds: they are no news."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        self._host = host.strip("[]")
        self._server = Server((self._host, port), Handler)
        # It looks this often whether it is to end, and is woken when it is.
        serve = partial(self._server.serve_forever, poll_interval=5.0)
        self._thread = threading.Thread(target=serve, name="status", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Serve no more."""
        stopping = threading.Thread(target=self._server.shutdown, name="status-stop")
        stopping.start()
        # The server looks up now and then, or when somebody connects.
        while stopping.is_alive():
            with suppress(OSError):
                socket.create_connection((self._host, self.port), timeout=1.0).close()
            stopping.join(0.05)
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> StatusServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
