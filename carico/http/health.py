"""/healthz, /readyz and /metrics of a CARICO process, on a separate port; needs prometheus-client.

Healthy means that the process can go on, ready that it does what others need it for. No request changes anything.
Kubelets and Prometheus have no certificate, so clients need none over TLS; further pages may need a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from carico.config import StatusConfig, TlsFiles
from carico.errors import InvalidConfig, InvalidInput
from carico.http.key import HEADER, StatusKey
from carico.http.server import HttpServer, RequestHandler
from carico.http.tls import ServerTls

_CLIENT_S = 10.0
"""How long a client may take for its handshake, and for each request."""
_CONNECTIONS = 32
"""The most simultaneous connections; kubelet and Prometheus need a few."""

Check = Callable[[], str]
"""Returns why not; an empty text means yes."""
Page = Callable[[], bytes]
"""Returns JSON."""
Search = Callable[[str], bytes]
"""Returns JSON about the thing with a name; raises InvalidInput if nothing can have that name."""


def serve_status(
    where: StatusConfig,
    tls: TlsFiles | None,
    registry: CollectorRegistry,
    healthy: Check,
    ready: Check,
    pages: Mapping[str, Page] | None = None,
    searches: Mapping[str, Search] | None = None,
) -> HttpServer:
    """Serve the status of a process until the server is closed.

    Parameters
    ----------
    where : StatusConfig
    tls : TlsFiles or None
        The process's own files, for a status that is served over TLS.
    registry : prometheus_client.CollectorRegistry
        What /metrics shows.
    healthy, ready : callable
        Return why the process is not; an empty text means that it is.
    pages : mapping of str to callable, optional
        Further pages, by path, for callers who may read them (`carico.http.key`).
    searches : mapping of str to callable, optional
        Pages about one thing each, for the same callers, by the path before the thing's name.

    Raises
    ------
    InvalidConfig
        If the address cannot be served, or not with these files, or the key cannot be read.
    """
    if where.tls and tls is None:
        raise InvalidConfig("`status: {tls: true}` serves with the process's own certificate: give `tls`, too")
    secured = ServerTls(tls, everybody=True) if where.tls and tls is not None else None
    checks = {"/healthz": healthy, "/readyz": ready}
    handler = _handler(registry, checks, pages or {}, searches or {}, StatusKey(where))
    return HttpServer(
        "status",
        where.host,
        where.port,
        handler,
        tls=secured,
        connections=_CONNECTIONS,
        handshake_s=_CLIENT_S,
    )


def _handler(
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    pages: Mapping[str, Page],
    searches: Mapping[str, Search],
    key: StatusKey,
) -> type[RequestHandler]:
    known = ", ".join([*checks, *pages, *(f"{path}NAME" for path in searches)]) + " or /metrics\n"

    class Handler(RequestHandler):
        timeout = _CLIENT_S

        def do_GET(self) -> None:  # noqa: N802  http.server wants this name
            self.server.spoke(self.connection)
            if self.path == "/metrics":
                self.answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif self.path in checks:
                why = checks[self.path]()
                self.answer(503 if why else 200, (why or "ok").encode() + b"\n", "text/plain; charset=utf-8")
            else:
                self._show(unquote(self.path))

        def _show(self, path: str) -> None:
            """Answer with what only callers with the key may read."""
            search = next((start for start in searches if path.startswith(start)), None)
            if path not in pages and search is None:
                self.answer(404, f"try {known}".encode(), "text/plain; charset=utf-8")
                return
            why_not = key.why_not(self.headers.get(HEADER))
            if why_not:
                self.answer(403, f"{why_not}\n".encode(), "text/plain; charset=utf-8")
                return
            try:
                found = pages[path]() if search is None else searches[search](path.removeprefix(search))
            except InvalidInput as error:
                self.answer(400, f"{error}\n".encode(), "text/plain; charset=utf-8")
            else:
                self.answer(200, found, "application/json")

    return Handler
