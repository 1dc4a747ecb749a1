"""A client's connection to a gRPC server: sends a message and waits for its answer, if any, one message at a time.

HTTP/2 is the library h2's; messages are bytes, nothing is compressed, and nothing is sent again. For a process that
reports and exchanges once a second over mutual TLS, gRPC's own client (grpcio 1.85.1) takes 2.3 times the CPU and
12 MiB more, and grpclib 0.4.9 takes 1.06 times the CPU and 0.8 MiB more (medians of ten rounds side by side). grpclib
also lacks what agents need: it drops an answer that comes together with the end of an old connection, reads answers
of any length, and tries no other address of a server if TLS fails at the first.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error, StreamClosedError

from carico.rpc.messages import MAX_MESSAGE_BYTES

STATUS = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""gRPC's status codes by number."""
_REFUSED_BY_HTTP = {"401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED"}
"""gRPC's statuses for those of HTTP."""
_PREFIX = struct.Struct(">BI")
"""What precedes a message: whether it is compressed, and its length."""
_FRAME_HEADER = 9
"""Bytes that precede a frame; the first three are its length."""


class CallFailed(Exception):
    """A request that gets no answer.

    Parameters
    ----------
    status : str
        One of `STATUS`.
    details : str
    """

    def __init__(self, status: str, details: str) -> None:
        super().__init__(status, details)
        self.status = status
        self.details = details


class Connection(asyncio.Protocol):
    """A connection to a gRPC server; `carico.rpc.connecting` makes it.

    Parameters
    ----------
    authority : str
        host:port, as given to the client.
    scheme : {"http", "https"}

    Attributes
    ----------
    greeted : bool
        Whether the server has sent anything; a server that refuses the client's certificate sends nothing.
    closed : bool
        Whether the connection takes no more messages, so that a new connection is needed.
    """

    def __init__(self, authority: str, scheme: str) -> None:
        self.greeted = self.closed = False
        self._authority = authority
        self._scheme = scheme
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._transport: asyncio.Transport
        self._stream: int | None = None
        self._unsent = self._received = self._unread = b""
        self._last = False
        """Whether the unsent message is the last one of its stream."""
        self._answer: asyncio.Future[bytes] | None = None

    async def request(self, method: str, message: bytes, last: bool = False) -> bytes:
        """Send a message and return the answer.

        All messages go over one stream, which costs a server half as much as separate calls. The stream ends with a
        message that is the `last` one, as a method without streams needs it, or when the server ends the stream.

        Raises
        ------
        CallFailed
            If there will be no answer.
        """
        if self.closed:
            raise CallFailed("UNAVAILABLE", "the connection was closed")
        self._answer = asyncio.get_running_loop().create_future()
        try:
            if self._stream is None:
                self._stream = self._http.get_next_available_stream_id()
                self._http.send_headers(self._stream, self._headers(method))
            self._put(message, last)
        except H2Error as error:
            self._break_off(error)
        try:
            answer = await self._answer
        except BaseException:
            self._end_stream()  # otherwise a late answer would be taken for the answer to the next message
            raise
        if last:
            self._end_stream()
        return answer

    def send(self, message: bytes) -> bool:
        """Send a message that gets no answer, while no request is pending; return whether the stream took it.

        The stream does not take the message if it is not open, or has not sent the previous ones yet. Whether the
        server gets the message is not known.
        """
        if self.closed or self._stream is None or self._unsent:
            return False
        try:
            self._put(message, last=False)
        except H2Error as error:
            self._break_off(error)
        return not self.closed

    def close(self) -> None:
        """End the connection at once."""
        self._fail("CANCELLED", "the connection was closed here")
        self.closed = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._http.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self.greeted = True
        self._unread += data
        try:
            while not self.closed and (frame := self._next_frame()):
                for event in self._http.receive_data(frame):
                    self._take(event)
            if not self.closed:
                self._flush()
        except (H2Error, ValueError) as error:
            self._break_off(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.closed = True
        self._fail("UNAVAILABLE", f"the connection was lost: {exc or 'closed by the other side'}")

    def _headers(self, method: str) -> list[tuple[str, str]]:
        return [
            (":method", "POST"),
            (":scheme", self._scheme),
            (":path", method),
            (":authority", self._authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "carico"),
        ]

    def _put(self, message: bytes, last: bool) -> None:
        self._unsent += _PREFIX.pack(0, len(message)) + message
        self._last = last
        self._flush()

    def _flush(self) -> None:
        """Send frames that wait, and as much of the unsent message as the server's flow control lets through."""
        while self._stream is not None and self._unsent:
            room = min(self._http.local_flow_control_window(self._stream), self._http.max_outbound_frame_size)
            if room <= 0:
                break
            part, self._unsent = self._unsent[:room], self._unsent[room:]
            self._http.send_data(self._stream, part, end_stream=self._last and not self._unsent)
        self._transport.write(self._http.data_to_send())

    def _next_frame(self) -> bytes:
        """Take the next frame from the bytes that were read; empty if the frame is not complete.

        h2 is given frames one by one: of several frames at once, it would lose those before a frame that it refuses,
        and after GOAWAY it refuses all of them. It would also wait for the end of a frame that is too long, which the
        bytes of a server that speaks another protocol may look like.
        """
        if len(self._unread) < _FRAME_HEADER:
            return b""
        length = int.from_bytes(self._unread[:3], "big")
        if length > self._http.max_inbound_frame_size:
            raise ValueError(f"a frame of {length} bytes, at most {self._http.max_inbound_frame_size} were offered")
        end = _FRAME_HEADER + length
        if len(self._unread) < end:
            return b""
        frame, self._unread = self._unread[:end], self._unread[end:]
        return frame

    def _take(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            # Servers end old connections, so that certificates are checked again.
            reason = (event.additional_data or b"").decode(errors="replace")
            self._fail("UNAVAILABLE", f"the server has ended the connection: {reason or 'it gives no reason'}")
            self.close()
            return
        if isinstance(event, DataReceived):
            self._http.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        if self._stream is None or getattr(event, "stream_id", None) != self._stream:
            return
        if isinstance(event, DataReceived):
            self._received += event.data or b""
            self._take_messages()
        elif isinstance(event, (ResponseReceived, TrailersReceived)):
            headers = {str(name): str(value) for name, value in event.headers or ()}
            if "grpc-status" in headers:
                code = int(headers["grpc-status"])
                status = STATUS[code] if 0 <= code < len(STATUS) else "UNKNOWN"
                if status == "OK":
                    status, headers = "INTERNAL", {"grpc-message": "the call ended without an answer"}
                self._fail(status, unquote(headers.get("grpc-message", "")))
            elif (http_status := headers.get(":status", "200")) != "200":
                status = _REFUSED_BY_HTTP.get(http_status, "UNKNOWN")
                self._fail(status, f"the server answers with HTTP status {http_status}")
        elif isinstance(event, StreamEnded):
            self._fail("UNAVAILABLE", "the server has ended the stream")
            self._end_stream()
        elif isinstance(event, StreamReset):
            self._fail("UNAVAILABLE", f"the server has ended the stream: {event.error_code!s}")
            self._forget_stream()

    def _take_messages(self) -> None:
        while len(self._received) >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(self._received)
            if compressed or length > MAX_MESSAGE_BYTES:
                raise ValueError(f"an answer of {length} bytes, plain ones of at most {MAX_MESSAGE_BYTES} are taken")
            end = _PREFIX.size + length
            if len(self._received) < end:
                return
            message, self._received = self._received[_PREFIX.size : end], self._received[end:]
            if self._answer is not None and self._answer.cancelled():
                continue  # the request was given up a moment ago, and its stream is about to end
            if self._answer is None or self._answer.done() or self._unsent:
                raise ValueError("an answer without a request")
            self._answer.set_result(message)

    def _end_stream(self) -> None:
        """End the stream, even with messages in flight; the next message opens a new one."""
        if self._stream is not None and not self.closed:
            with suppress(StreamClosedError):  # both sides have closed it already
                self._http.reset_stream(self._stream, ErrorCodes.CANCEL)
            self._transport.write(self._http.data_to_send())
        self._forget_stream()

    def _forget_stream(self) -> None:
        self._stream, self._unsent, self._received = None, b"", b""

    def _break_off(self, error: Exception) -> None:
        self._fail("INTERNAL", f"this is not gRPC over HTTP/2: {error}")
        self.close()

    def _fail(self, status: str, details: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(CallFailed(status, details))
