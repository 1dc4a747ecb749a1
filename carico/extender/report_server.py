"""Receives the reports of nodes, and passes them on checked, in order, and only from the node that each is about."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from carico import __version__
from carico.clock import Clock, SystemClock
from carico.config import CONNECTION_AGE_S, TlsFiles
from carico.rpc.identity import NODE
from carico.rpc.messages import MAX_MESSAGE_BYTES, read_report, write_report_reply
from carico.rpc.server import Caller, OnRefused, RpcServer
from carico.rpc.versions import OtherVersions
from carico.scheduling.report import MOST_PODS_NAMED, CapacityReport, ReportReply

_UNDER_WAY_S = 10.0
"""No report arrives later than this: one report in five is answered, and without an answer the agent opens a new
stream."""


class ReportOrder:
    """Tells late reports from new ones, by what was passed on of each node.

    Parameters
    ----------
    clock : Clock
        Dates incoming reports.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: OrderedDict[str, tuple[CapacityReport, float]] = OrderedDict()
        """The last report passed on and its arrival, by node, the latest last."""

    def is_late(self, report: CapacityReport) -> bool:
        """Whether a later report of the node was passed on already.

        The sequence of a restarted agent begins again, and a clock that was set back shows an earlier time. Both may
        follow a restart of the machine, but that takes longer than any report needs to arrive.
        """
        now = self._clock.now()
        while self._last and next(iter(self._last.values()))[1] < now - _UNDER_WAY_S:
            self._last.popitem(last=False)
        last, _ = self._last.get(report.node, (None, now))
        return last is not None and report.sequence <= last.sequence and report.at_unix_s <= last.at_unix_s

    def passed_on(self, report: CapacityReport) -> None:
        """Note a report that was passed on."""
        self._last[report.node] = (report, self._clock.now())
        self._last.move_to_end(report.node)


class CapacityServer:
    """Serves until it is closed.

    Parameters
    ----------
    on_report : callable
        Called with each `CapacityReport`; returns the workloads of pods, by UID, that the node should know. If the
        report is answered, as many of them are sent as fit into a message. It is called in the server's thread, one
        report at a time, and must not block.
    tls : TlsFiles or None
        None is plain text, for a loopback address and only with `insecure_loopback`.
    host, port
        Where to listen; port 0 lets the system choose, see `port`.
    insecure_loopback : bool, optional
    refused : callable, optional
        Called with the reason of every refusal: see `OnRefused`.
    clock : Clock, optional
        Dates incoming reports; the machine's by default.
    connection_age_s : float, optional
        See `RpcServer`.

    Raises
    ------
    InvalidConfig
        If the TLS files cannot be used, plain text is not allowed at that address, or the address cannot be served.
    """

    def __init__(
        self,
        on_report: Callable[[CapacityReport], Mapping[str, str]],
        tls: TlsFiles | None,
        host: str,
        port: int,
        *,
        insecure_loopback: bool = False,
        refused: OnRefused = lambda why: None,
        clock: Clock | None = None,
        connection_age_s: float = CONNECTION_AGE_S,
    ) -> None:
        self._on_report = on_report
        self._order = ReportOrder(clock or SystemClock())
        self._versions = OtherVersions("this scheduler")
        self._nothing_to_tell = write_report_reply(ReportReply({}, __version__))
        self._server = RpcServer(
            "carico.v1.Capacity",
            unary={},
            streams={"ReportStream": self._report},
            tls=tls,
            insecure_loopback=insecure_loopback,
            host=host,
            port=port,
            refused=refused,
            connection_age_s=connection_age_s,
            for_nodes=True,
        )

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    def is_alive(self) -> bool:
        """Return whether the thread that takes reports runs."""
        return self._server.loop.is_alive()

    def close(self) -> None:
        """Stop serving."""
        self._server.close()

    def _report(self, data: bytes, caller: Caller) -> bytes | None:
        report, silent = read_report(data)
        caller.must_be(NODE + report.node)
        self._versions.note(f"{report.node}'s agent", report.version)
        if self._order.is_late(report):
            return None if silent else self._nothing_to_tell
        workloads = self._on_report(report)
        self._order.passed_on(report)
        return None if silent else self._answer(workloads)

    def _answer(self, workloads: Mapping[str, str]) -> bytes:
        if not workloads:
            return self._nothing_to_tell
        told = list(workloads.items())[:MOST_PODS_NAMED]
        while len(answer := write_report_reply(ReportReply(dict(told), __version__))) > MAX_MESSAGE_BYTES:
            told = told[: len(told) // 2]  # the others can follow in the next answer
        return answer
