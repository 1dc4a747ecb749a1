"""The clients of the aggregation server and of the scheduler, each with one long-lived connection.

A call opens a new connection if the last one has ended. A node sends all its messages to a server over one stream.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Self

from carico.errors import InvalidConfig, Refused, RpcError, Unreachable
from carico.model.aggregator import ReplicaView
from carico.model.subspace import Subspace
from carico.rpc.connecting import connect
from carico.rpc.connection import CallFailed, Connection
from carico.rpc.identity import node_name
from carico.rpc.messages import (
    read_reply,
    read_report_reply,
    read_view,
    write_exchange,
    write_report,
    write_view,
)
from carico.rpc.tls import ClientTls, require_loopback
from carico.rpc.versions import OtherVersions
from carico.scheduling.report import CapacityReport, ReportReply

_REFUSALS = frozenset(
    {"INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED", "FAILED_PRECONDITION"}
)
_DEADLINES_TO_CONNECT = 5
"""How many deadlines a client waits for a connection. Thousands of nodes connect at once to a restarted server, and a
client that gave up during a handshake would have wasted the server's time."""
_SILENT_BETWEEN = 4
"""Silent reports between two that are answered."""
_MOST_UNANSWERED = 5
"""Requests in a row without an answer before a new connection is made: a connection whose other end has vanished looks
alive for a quarter of an hour."""


class Client:
    """Calls methods of one server, from within an event loop.

    Parameters
    ----------
    target : str
        host:port.
    credentials : ClientTls or None
        None is plain text, for a loopback address only.
    deadline_s : float
        How long an answer is waited for, seconds.

    Raises
    ------
    InvalidConfig
        If there are no credentials and the target is not on loopback, or the deadline is not positive.
    """

    def __init__(self, target: str, credentials: ClientTls | None, deadline_s: float) -> None:
        if not 0 < deadline_s < float("inf"):
            raise InvalidConfig(f"deadline_s must be a positive number of seconds, got {deadline_s}")
        if credentials is None:
            require_loopback(target.rpartition(":")[0], allowed=True)
        self._target = target
        self._credentials = credentials
        self._deadline_s = deadline_s
        self._connection: Connection | None = None
        self._unanswered = 0

    async def call(self, method: str, request: bytes) -> bytes:
        """Send a message over a stream of its own and return the answer; one call at a time.

        Raises
        ------
        Unreachable
            If no answer came within the deadline, or no connection was made within five times the deadline for each
            address of the server.
        Refused
            If the server refuses the message.
        """
        return await self._answered(method, request, last=True)

    async def request(self, method: str, request: bytes) -> bytes:
        """Send a message over the client's stream and return the answer; otherwise like `call`."""
        return await self._answered(method, request, last=False)

    def send(self, message: bytes) -> bool:
        """Send a message that gets no answer over the client's stream if it is open; return whether it was sent."""
        return self._connection is not None and self._connection.send(message)

    async def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _answered(self, method: str, request: bytes, last: bool) -> bytes:
        connection = await self._connected(method)
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await connection.request(method, request, last)
            self._unanswered = 0
            return answer
        except TimeoutError:
            self._unanswered += 1
            status, details = "DEADLINE_EXCEEDED", f"no answer within {self._deadline_s:g} s"
        except CallFailed as error:
            status, details = error.status, error.details
        if self._unanswered >= _MOST_UNANSWERED:
            connection.close()
        raise self._failure(method, status, details, may_be_tls=not connection.greeted)

    async def _connected(self, method: str) -> Connection:
        if self._connection is None or self._connection.closed:
            tls = None if self._credentials is None else self._credentials.current()
            patience_s = _DEADLINES_TO_CONNECT * self._deadline_s
            try:
                self._connection = await connect(self._target, tls, patience_s)
            except TimeoutError:
                raise self._failure(method, "DEADLINE_EXCEEDED", f"no connection within {patience_s:g} s") from None
            except OSError as error:
                may_be_tls = isinstance(error, (ssl.SSLError, ConnectionResetError))
                why = str(error) or type(error).__name__
                raise self._failure(method, "UNAVAILABLE", why, may_be_tls) from error
            self._unanswered = 0
        return self._connection

    def _failure(self, method: str, status: str, details: str, may_be_tls: bool = False) -> RpcError:
        why = f"{self._target}{method}: {status}: {details}"
        if may_be_tls:
            why += (
                "; if this stays, check `tls` on both sides: one CA, valid dates, the host in the server's certificate"
            )
        return (Refused if status in _REFUSALS else Unreachable)(why)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AggregationClient(Client):
    """Exchanges a node's subspace for the view of the whole cluster; for the parameters see `Client`."""

    def __init__(self, target: str, credentials: ClientTls | None, node: str, deadline_s: float = 1.0) -> None:
        super().__init__(target, credentials, deadline_s)
        self._node = node_name(node)

    async def exchange(self, subspace: Subspace) -> Subspace:
        """Send the node's own subspace and return the aggregated one.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If the answer is not a subspace of the same resources.
        """
        answer = await self.request("/carico.v1.Aggregation/ExchangeStream", write_exchange(self._node, subspace))
        return read_reply(answer, subspace.basis.shape[0])


class ReportClient(Client):
    """Reports to the scheduler how much room a node has; for the parameters see `Client`."""

    def __init__(self, target: str, credentials: ClientTls | None, deadline_s: float = 1.0) -> None:
        super().__init__(target, credentials, deadline_s)
        self._silent_left = 0
        self._versions = OtherVersions("this agent")
        self._told: frozenset[str] = frozenset()
        """The pods that the latest answered report counted."""
        self._reply: ReportReply | None = None

    async def report(self, report: CapacityReport) -> ReportReply | None:
        """Send one report, and return the latest answer; None if there was none yet.

        One report in five is answered, beginning with the first report of a stream: the answer shows that the scheduler
        listens, and each report without an answer saves both sides a wake-up. A report of the variant `demand` is also
        answered if it counts new pods, because the answer gives their workloads.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`; only for reports that are answered.
        InvalidInput
            If a number or a name does not fit into the message, or the answer makes no sense.
        """
        counted = frozenset() if report.demand is None else frozenset(report.demand.counted)
        if counted <= self._told and self._silent_left > 0 and self.send(write_report(report, silent=True)):
            self._silent_left -= 1
            return self._reply
        self._silent_left = 0
        reply = read_report_reply(await self.request("/carico.v1.Capacity/ReportStream", write_report(report)))
        self._versions.note(f"the scheduler {self._target}", reply.version)
        self._silent_left, self._told, self._reply = _SILENT_BETWEEN, counted, reply
        return reply


class ReplicaClient(Client):
    """Exchanges views with another replica of the aggregation server; for the parameters see `Client`."""

    async def reconcile(self, view: ReplicaView, resources: int) -> ReplicaView:
        """Send what this replica has learned from its own nodes, and return what the other replica has learned.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If the answer is not a view of that many resources.
        """
        return read_view(await self.call("/carico.v1.Aggregation/Reconcile", write_view(view)), resources)
