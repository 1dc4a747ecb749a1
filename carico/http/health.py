"""/healthz, /readyz and /metrics of a CARICO process, on a port of their own; needs prometheus-client.

Healthy: the process can go on. Ready: it does what others need it for. Nothing here changes anything, and nothing is
secret: over TLS, whoever asks needs no certificate.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from types import TracebackType

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from carico.config import StatusConfig, TlsFiles
from carico.errors import InvalidConfig
from carico.http.server import HttpServer
from carico.http.tls import ServerTls

_CLIENT_S = 10.0
"""For a client that connects and says nothing."""
_CONNECTIONS = 32
"""At a time; kubelet and Prometheus need a few."""

Check = Callable[[], str]
"""Returns why not; an empty text means yes."""
Page = Callable[[], bytes]
"""Returns JSON."""


def serve_status(
    where: StatusConfig,
    tls: TlsFiles | None,
    registry: CollectorRegistry,
    healthy: Check,
    ready: Check,
    pages: Mapping[str, Page] | None = None,
) -> StatusServer:
    """Serve the status as a process's configuration says; for the parameters see `StatusServer`.

    Raises
    ------
    InvalidConfig
        If nothing can be served there, or not with these files.
    """
    if where.tls and tls is None:
        raise InvalidConfig("`status: {tls: true}` serves with the process's own certificate: give `tls`, too")
    secured = ServerTls(tls, everybody=True) if where.tls and tls is not None else None
    try:
        return StatusServer(registry, healthy, ready, where.host, where.port, secured, pages)
    except OSError as error:
        raise InvalidConfig(
            f"no status can be served on {where.host}:{where.port}: {error.strerror}; is the port taken?"
        ) from error


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
    tls : ServerTls, optional
        Without it HTTP is plain.
    pages : mapping of str to callable, optional
        What else there is to see, by path.

    Raises
    ------
    OSError
        If nothing can be served there.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        healthy: Check,
        ready: Check,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ServerTls | None = None,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        checks = {"/healthz": healthy, "/readyz": ready}
        more = pages or {}
        known = ", ".join(["/healthz", "/readyz", *more]) + " or /metrics\n"

        class Handler(BaseHTTPRequestHandler):
            timeout = _CLIENT_S
            protocol_version = "HTTP/1.1"
            server: HttpServer

            def do_GET(self) -> None:
                self.server.spoke(self.connection)
                if self.path == "/metrics":
                    self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                elif self.path in checks:
                    why = checks[self.path]()
                    self._answer(503 if why else 200, (why or "ok").encode() + b"\n", "text/plain; charset=utf-8")
                elif self.path in more:
                    self._answer(200, more[self.path](), "application/json")
                else:
                    self._answer(404, f"try {known}".encode(), "text/plain; charset=utf-8")

            def _answer(self, code: int, body: bytes, kind: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Probes come every few seconds: they are no news."""

        self._host = host.strip("[]")
        self._server = HttpServer((self._host, port), Handler, tls, _CONNECTIONS, _CLIENT_S)
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
