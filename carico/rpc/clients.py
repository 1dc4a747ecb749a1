"""What a node calls: the aggregation server and the scheduler, over one long-lived channel each.

A channel reconnects by itself, notices a connection that died silently, and is made anew when the TLS files change.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import grpc

from carico.aggregator import ReplicaView
from carico.errors import InvalidConfig, Refused, Unreachable
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


class Client:
    """Calls methods of one process.

    Parameters
    ----------
    target : str
        host:port.
    credentials : ChannelCredentials or None
        None is plain text, for a loopback address only.
    deadline_s : float
        No call takes longer, seconds.

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
        self._channel: grpc.Channel | None = None

    def call(self, method: str, request: bytes) -> bytes:
        """Send a message and return the answer.

        Raises
        ------
        Unreachable
            If none came within the deadline.
        Refused
            If the other side will not do what it is asked.
        """
        try:
            send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._current_channel().unary_unary(method, None, None)
            return send(request, timeout=self._deadline_s)
        except grpc.RpcError as error:
            code = error.code()
            reason = f"{self._target}{method}: {code.name}: {error.details()}"
            raise (Refused if code in _REFUSALS else Unreachable)(reason) from error

    def close(self) -> None:
        """Close the connection; another call opens it again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _current_channel(self) -> grpc.Channel:
        credentials = None if self._credentials is None else self._credentials.current()
        if self._channel is None or credentials is not self._made_with:
            self.close()
            self._made_with = credentials
            self._channel = (
                grpc.insecure_channel(self._target, options=_OPTIONS)
                if credentials is None
                else grpc.secure_channel(self._target, credentials, options=_OPTIONS)
            )
        return self._channel

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AggregationClient(Client):
    """Exchanges a node's subspace for the view of the whole cluster; for the parameters see `Client`."""

    def __init__(self, target: str, credentials: ChannelCredentials | None, node: str, deadline_s: float = 1.0) -> None:
        super().__init__(target, credentials, deadline_s)
        self._node = node_name(node)

    def exchange(self, subspace: Subspace) -> Subspace:
        """Send the node's own subspace and return the aggregated one.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If the answer is no subspace of the same resources.
        """
        answer = self.call("/carico.v1.Aggregation/Exchange", write_exchange(self._node, subspace))
        return read_reply(answer, subspace.basis.shape[0])


class ReportClient(Client):
    """Reports a node's Pod-Capacity to the scheduler; for the parameters see `Client`."""

    def __init__(self, target: str, credentials: ChannelCredentials | None, node: str, deadline_s: float = 1.0) -> None:
        super().__init__(target, credentials, deadline_s)
        self._node = node_name(node)

    def report(self, pod_capacity: float, pods: int, at_unix_s: float, sequence: int) -> None:
        """Send one report; for the parameters see `CapacityReport`.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If a number does not fit into the message.
        """
        report = CapacityReport(self._node, pod_capacity, pods, at_unix_s, sequence)
        self.call("/carico.v1.Capacity/Report", write_report(report))


class ReplicaClient(Client):
    """Exchanges views with another replica of the aggregation server; for the parameters see `Client`."""

    def reconcile(self, view: ReplicaView, resources: int) -> ReplicaView:
        """Send what this replica has learned from its own nodes and return what the other has.

        Raises
        ------
        Unreachable, Refused
            See `Client.call`.
        InvalidInput
            If the answer is no view of that many resources.
        """
        return read_view(self.call("/carico.v1.Aggregation/Reconcile", write_view(view)), resources)
