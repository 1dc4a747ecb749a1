"""The extender over HTTP/1.1: kube-scheduler posts to /filter, over mutual TLS or, to try it out, on loopback.

Connections are kept for an hour. An invalid request is answered with 400 and the reason, and changes nothing.
"""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from typing import Protocol

from carico.config import HttpLimits
from carico.errors import InvalidRequest, NotReady
from carico.extender.api import ExtenderArgs, ExtenderFilterResult, read_args, write_result
from carico.extender.metrics import ExtenderMetrics
from carico.http.budget import ByteBudget
from carico.http.server import HttpServer, RequestHandler
from carico.http.tls import ServerTls, names_of

_PART_BYTES = 1 << 16
"""The most of a body that is read at once."""
_RETRY_AFTER_S = 1
"""When a request that found no room should come again."""


class Decides(Protocol):
    """The extender's core of any variant."""

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Decide on a pod."""
        ...


def serve_extender(
    extender: Decides,
    metrics: ExtenderMetrics,
    *,
    host: str,
    port: int,
    tls: ServerTls | None,
    clients: frozenset[str] = frozenset(),
    limits: HttpLimits = HttpLimits(),  # noqa: B008  frozen
) -> HttpServer:
    """Serve kube-scheduler until the server is closed; kube-scheduler repeats requests that remain unanswered.

    Parameters
    ----------
    extender : Decides
    metrics : ExtenderMetrics
    host, port
        Where to listen; port 0 lets the system choose, see `HttpServer.port`.
    tls : ServerTls or None
        None is plain text; the caller decides whether that is allowed there.
    clients : set of str
        A client's certificate must have one of these names; if empty, every certificate of the CA is accepted.
    limits : HttpLimits

    Raises
    ------
    InvalidConfig
        If the address cannot be served.
    """
    handler = _handler(extender, metrics, clients, limits)
    return HttpServer(
        "extender", host, port, handler, tls=tls, connections=limits.connections, handshake_s=limits.handshake_timeout_s
    )


def _handler(
    extender: Decides, metrics: ExtenderMetrics, clients: frozenset[str], limits: HttpLimits
) -> type[RequestHandler]:
    budget = ByteBudget(limits.all_bodies_bytes)

    class Handler(RequestHandler):
        wbufsize = -1  # one packet an answer
        disable_nagle_algorithm = True

        def setup(self) -> None:
            """Read the client's certificate once for all requests of the connection."""
            super().setup()
            self._old_at = time.monotonic() + limits.connection_age_s
            self._allowed = (
                not clients
                or not isinstance(self.connection, ssl.SSLSocket)
                or bool(clients & names_of(self.connection.getpeercert()))
            )

        def handle_one_request(self) -> None:
            """Wait long for a request to begin, because connections are kept, and briefly for it to be complete."""
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

        def do_POST(self) -> None:  # noqa: N802  http.server wants this name
            if self.path != "/filter":
                self._refuse(404, "only POST /filter is served")
            elif not self._allowed:
                self._refuse(403, "the certificate has none of the names that may ask (`clients`)")
            elif (length := self._length()) is not None:
                with budget.lent(length) as enough:
                    if not enough:
                        self._refuse(
                            503,
                            f"the bodies of all requests under way may have {limits.all_bodies_bytes} bytes "
                            f"(`limits.all_bodies_bytes`), another {length} do not fit: try again",
                            retry_after_s=_RETRY_AFTER_S,
                        )
                    elif (body := self._body(length)) is not None:
                        self._filter(body)

        def _length(self) -> int | None:
            text = self.headers.get("Content-Length", "")
            if not (text.isascii() and text.isdigit()) or "Transfer-Encoding" in self.headers:
                self._refuse(411, "a Content-Length is needed")
                return None
            if len(text) > 12 or int(text) > limits.body_bytes:
                self._refuse(413, f"a body of at most {limits.body_bytes} bytes is needed, got {text[:20]}")
                return None
            return int(text)

        def _body(self, length: int) -> bytes | None:
            """Read a body; the time-out is for the whole, so that a slow client does not hold its bytes for long."""
            body, late_at = bytearray(), time.monotonic() + limits.request_timeout_s
            with suppress(OSError):  # the client is gone, or too slow
                while len(body) < length and (left_s := late_at - time.monotonic()) > 0:
                    self.connection.settimeout(left_s)
                    part = self.rfile.read1(min(length - len(body), _PART_BYTES))
                    if not part:
                        break
                    body += part
            self.connection.settimeout(limits.request_timeout_s)
            if len(body) < length:
                self._count_bad(400)
                self.close_connection = True
                return None
            return bytes(body)

        def _filter(self, body: bytes) -> None:
            try:
                content = write_result(extender.filter(read_args(body)))
            except InvalidRequest as error:
                self._refuse(400, str(error), close=False)
            except NotReady as error:
                self._refuse(503, str(error), close=False)
            else:
                self.answer(200, content, "application/json")

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Count what the library refuses: text that is not HTTP, or a method that is not served."""
            self._count_bad(code)
            super().send_error(code, message, explain)

        def _count_bad(self, status: int) -> None:
            metrics.decisions.labels("error").inc()
            metrics.bad_requests.labels(str(int(status))).inc()

        def _refuse(self, status: int, why: str, close: bool = True, retry_after_s: int | None = None) -> None:
            self._count_bad(status)
            self.close_connection |= close  # the rest of the request is not read
            self.answer(status, f"{why}\n".encode(), "text/plain; charset=utf-8", retry_after_s)

        def answer(self, status: int, content: bytes, kind: str, retry_after_s: int | None = None) -> None:
            """Send an answer; the last one if the connection is old."""
            self.close_connection |= time.monotonic() >= self._old_at
            super().answer(status, content, kind, retry_after_s)

    return Handler
