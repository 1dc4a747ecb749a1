"""Receives what nodes report to the scheduler: checked, in order, each from the node that it is about."""

from __future__ import annotations

from collections.abc import Callable

from carico.config import TlsFiles
from carico.rpc.identity import NODE
from carico.rpc.messages import read_report
from carico.rpc.server import Caller, OnRefused, RpcServer


class CapacityServer:
    """Serves until it is closed.

    Parameters
    ----------
    on_report : callable
        Is told node, Pod-Capacity (pods), running pods and the time of the report (seconds since 1970, by the node's
        clock). It is called in the server's thread, one report at a time, and must not block.
    tls : TlsFiles or None
        None is plain text, for a loopback address and only with `insecure_loopback`.
    host, port
        Where to listen; port 0 lets the system choose, see `port`.
    insecure_loopback : bool, optional
    refused : callable, optional
        Is told why a report was refused: ``invalid_input`` or ``not_allowed``.

    Attributes
    ----------
    received, late : int
        Reports passed on, and reports ignored because a newer one of the node had come before.

    Raises
    ------
    InvalidConfig
        If the TLS files are no good, plain text is not allowed there, or nothing can be served there.
    """

    def __init__(
        self,
        on_report: Callable[[str, float, int, float], None],
        tls: TlsFiles | None,
        host: str,
        port: int,
        *,
        insecure_loopback: bool = False,
        refused: OnRefused = lambda why: None,
    ) -> None:
        self.received = self.late = 0
        self._on_report = on_report
        self._last: dict[str, tuple[int, float]] = {}
        self._server = RpcServer(
            "carico.v1.Capacity",
            unary={"Report": self._report},
            streams={"ReportStream": self._report},
            tls=tls,
            insecure_loopback=insecure_loopback,
            host=host,
            port=port,
            refused=refused,
        )

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    def close(self) -> None:
        """Serve no more."""
        self._server.close()

    def _report(self, data: bytes, caller: Caller) -> bytes:
        report = read_report(data)
        caller.must_be(NODE + report.node)
        sequence, at_unix_s = self._last.get(report.node, (-1, -1.0))
        # An agent that was restarted counts from the start, a clock that was set back shows less: not both at once.
        if report.sequence <= sequence and report.at_unix_s <= at_unix_s:
            self.late += 1
            return b""
        self._on_report(report.node, report.pod_capacity, report.pods, report.at_unix_s)
        self._last[report.node] = (report.sequence, report.at_unix_s)
        self.received += 1
        return b""
