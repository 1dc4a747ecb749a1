"""What a process calls: the aggregation server and the scheduler, over one long-lived channel each.

A channel reconnects by itself, notices a connection that died silently, and is made anew when the TLS files change.
What nodes say again and again goes over one stream, which costs a server half of what calls do.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, TypeAlias

import grpc
from grpc import aio

from carico.aggregator import ReplicaView
from carico.errors import InvalidConfig, Refused, RpcError, Unreachable
from carico.rpc.identity import node_name
from carico.rpc.messages import (
    MAX_MESSAGE_BYTES,
    CapacityReport,
    read_reply,
    read_view,
    write_exchange,
    write_report,
    write_view,
)
from carico.rpc.tls import ChannelCredentials, require_loopback
from carico.subspace import Subspace

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.bdp_probe", 0),  # a ping for every answer, to find out what large messages could make use of
    # A connection whose other end vanished looks alive for a quarter of an hour otherwise.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
)
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
)
_NO_HANDSHAKE = ("Tls handshake failed", "verification check failed", ": Socket closed")
"""What gRPC says of a connection that TLS ended; a server that refuses a certificate, or TLS, just closes."""
_Stream: TypeAlias = "aio.StreamStreamCall[bytes, bytes]"


class Client:
    """Calls methods of one process, from within an event loop.

    Parameters
    ----------
    target : str
        host:port.
    credentials : ChannelCredentials or None
        None is plain text, for a loopback address only.
    deadline_s : float
        No answer is waited for longer, seconds.

    Raises
    ------
    InvalidConfig
        If there are no credentials and the target is not on loopback, or the deadline is not positive.
    """

    def __init__(self, target: str, credentials: ChannelCredentials | None, deadline_s: float) -> None:
        if not 0 < deadline_s < float("inf"):
            raise InvalidConfig(f"deadline_s must be a positive number of seconds, got {deadline_s}")
        if credentials is None:
            require_loopback(target.rpartition(":")[0], allowed=True)
        self._target = target
        self._credentials = credentials
        self._deadline_s = deadline_s
        self._made_with: grpc.ChannelCredentials | None = None
        self._channel: aio.Channel | None = None
        self._stream: _Stream | None = None

    async def call(self, method: str, request: bytes) -> bytes:
        """Send a message and return the answer.

        Raises
        ------
        Unreachable
            If none came within the deadline.
        Refused
            If the other side will not do what it is asked.
        """
        send: aio.UnaryUnaryMultiCallable[bytes, bytes] = (await self._current_channel()).unary_unary(
            method, None, None
        )
        try:
            return await send(request, timeout=self._deadline_s)
        except aio.AioRpcError as error:
            raise self._failure(method, error.code(), error.details()) from error

    async def ask(self, method: str, request: bytes) -> bytes:
        """Send a message over the client's stream, which is opened if there is none; otherwise as `call`."""
        channel = await self._current_channel()
        if self._stream is None or self._stream.done():  # a server ends them now and then
            open_stream: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(method, None, None)
            self._stream = open_stream()
        stream = self._stream
        try:
            async with asyncio.timeout(self._deadline_s):
                await stream.write(request)
                answer = await stream.read()
                if isinstance(answer, bytes):
                    return answer
                code, details = await stream.code(), await stream.details()
        except TimeoutError:
            code, details = grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {self._deadline_s:g} s"
        except (aio.AioRpcError, asyncio.InvalidStateError):  # it has ended, perhaps long ago
            code, details = await stream.code(), await stream.details()
        # A late answer would pass for that of the next request.
        self._end_stream()
        raise self._failure(method, code, details)

    async def close(self) -> None:
        """Close the connection; calling or asking again opens it again."""
        self._end_stream()
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    def _failure(self, method: str, code: grpc.StatusCode, details: str | None) -> RpcError:
        why = f"{self._target}{method}: {code.name}: {details}"
        if details and any(words in details for words in _NO_HANDSHAKE):
            why += (
                "; if that stays, check `tls` on both sides: one CA, valid dates, the host in the server's certificate"
            )
        return (Refused if code in _REFUSALS else Unreachable)(why)

    async def _current_channel(self) -> aio.Channel:
        credentials = None if self._credentials is None else self._credentials.current()
        if self._channel is None or credentials is not self._made_with:
            await self.close()
            self._made_with = credentials
            self._channel = (
                aio.insecure_channel(self._target, options=_OPTIONS)
                if credentials is None
                else aio.secure_channel(self._target, credentials, options=_OPTIONS)
            )
        return self._channel

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AggregationClient(Client):
    """Exchanges a node's subspace for the view of the whole cluster; for the parameters see `Client`."""

    def __init__(self, target: str, credentials: ChannelCredentials | None, node: str, deadline_s: float = 1.0) -> None:
        super().__init__(target, credentials, deadline_s)
        self._node = node_name(node)

    async def exchange(self, subspace: Subspace) -> Subspace:
        """Send the node's own subspace and return the aggregated one.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If the answer is no subspace of the same resources.
        """
        answer = await self.ask("/carico.v1.Aggregation/ExchangeStream", write_exchange(self._node, subspace))
        return read_reply(answer, subspace.basis.shape[0])


class ReportClient(Client):
    """Reports a node's Pod-Capacity to the scheduler; for the parameters see `Client`."""

    def __init__(self, target: str, credentials: ChannelCredentials | None, node: str, deadline_s: float = 1.0) -> None:
        super().__init__(target, credentials, deadline_s)
        self._node = node_name(node)

    async def report(self, pod_capacity: float, pods: int, at_unix_s: float, sequence: int) -> None:
        """Send one report; for the parameters see `CapacityReport`.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If a number does not fit into the message.
        """
        report = CapacityReport(self._node, pod_capacity, pods, at_unix_s, sequence)
        await self.ask("/carico.v1.Capacity/ReportStream", write_report(report))


class ReplicaClient(Client):
    """Exchanges views with another replica of the aggregation server; for the parameters see `Client`."""

    async def reconcile(self, view: ReplicaView, resources: int) -> ReplicaView:
        """Send what this replica has learned from its own nodes and return what the other has.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If the answer is no view of that many resources.
        """
        return read_view(await self.call("/carico.v1.Aggregation/Reconcile", write_view(view)), resources)
