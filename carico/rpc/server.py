"""A gRPC server as all of CARICO's are: secured, in a thread of its own, and not impressed by what comes in.

It is asyncio's: one thread serves every connection, so ten thousand idle streams cost memory, no threads, and a stream
carries about three times what calls do. What it calls must therefore not block. Handlers get bytes: what they are is
judged by `carico.rpc.messages`, and bytes that are no message are answered like any other bad input.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

import grpc
from grpc import aio

from carico.config import TlsFiles
from carico.errors import InvalidConfig, InvalidInput
from carico.rpc.identity import owners
from carico.rpc.messages import MAX_MESSAGE_BYTES
from carico.rpc.tls import require_loopback, server_credentials

_log = logging.getLogger(__name__)

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.so_reuseport", 0),  # a second server on the port is an error, not a sharer
    ("grpc.server_handshake_timeout_ms", 10_000),  # who connects and says nothing
    ("grpc.keepalive_time_ms", 60_000),  # who has vanished
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),  # clients look every 10 s whether we are there
)

_Call: TypeAlias = "aio.ServicerContext[bytes, bytes]"
_T = TypeVar("_T")


class NotAllowed(Exception):
    """The caller's certificate is not one for what it asks."""


class Caller:
    """Who calls, established once per call or stream."""

    def __init__(self, call: _Call, secure: bool) -> None:
        self._owners = owners(call) if secure else None

    def must_be(self, owner: str) -> None:
        """Let pass who owns a certificate for `owner`; over plain text on loopback everybody does.

        Raises
        ------
        NotAllowed
            If the caller is somebody else.
        """
        if self._owners is not None and owner not in self._owners:
            raise NotAllowed(
                f"a certificate with the URI {owner} is needed, got {', '.join(sorted(self._owners)) or 'none'}"
            )


Answer = Callable[[bytes, Caller], bytes]
"""Answers a message; raises InvalidInput or NotAllowed. It is called in the server's thread and must not block."""
OnRefused = Callable[[str], None]
"""Is told why something was refused: ``invalid_input`` or ``not_allowed``."""


class RpcServer:
    """Serves one gRPC service until it is closed.

    Parameters
    ----------
    service : str
        Its full name, ``carico.v1.Aggregation``.
    unary, streams, client_streams : mapping of str to callable
        By method: how a message is answered; of a stream, every one of its messages; of a client stream the answer
        to the last message is the answer.
    tls : TlsFiles or None
        None is plain text, for a loopback address and only with `insecure_loopback`.
    host, port
        Where to listen; port 0 lets the system choose.
    refused : callable, optional

    Raises
    ------
    InvalidConfig
        If the TLS files are no good, plain text is not allowed there, or nothing can be served there.
    """

    def __init__(
        self,
        service: str,
        unary: Mapping[str, Answer],
        streams: Mapping[str, Answer],
        client_streams: Mapping[str, Answer],
        *,
        tls: TlsFiles | None,
        insecure_loopback: bool,
        host: str,
        port: int,
        refused: OnRefused = lambda why: None,
    ) -> None:
        self._secure = tls is not None
        self._refused = refused
        if tls is None:
            require_loopback(host, insecure_loopback)
        credentials = None if tls is None else server_credentials(tls)
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = (
            {name: grpc.unary_unary_rpc_method_handler(self._unary(answer)) for name, answer in unary.items()}
            | {name: grpc.stream_stream_rpc_method_handler(self._stream(answer)) for name, answer in streams.items()}
            | {
                name: grpc.stream_unary_rpc_method_handler(self._client_stream(answer))
                for name, answer in client_streams.items()
            }
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rpc", daemon=True)
        self._thread.start()
        try:
            self._server, self.port = self._run(self._listen(service, handlers, credentials, host, port))
        except BaseException:
            self._end_loop()
            raise

    def close(self, grace_s: float = 1.0) -> None:
        """Accept nothing more, let calls end within `grace_s` seconds, and return when all have."""
        if self._loop.is_closed():
            return
        self._run(self._server.stop(grace_s))
        self._end_loop()

    async def _listen(
        self,
        service: str,
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]],
        credentials: grpc.ServerCredentials | None,
        host: str,
        port: int,
    ) -> tuple[aio.Server, int]:
        server = aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        name = host.strip("[]")
        address = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        try:
            bound = (
                server.add_insecure_port(address)
                if credentials is None
                else server.add_secure_port(address, credentials)
            )
        except RuntimeError as error:
            raise InvalidConfig(f"nothing can be served on {address}: {error}; is the port taken?") from error
        await server.start()
        return server, bound

    def _run(self, what: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _unary(self, answer: Answer) -> Callable[[bytes, _Call], Awaitable[bytes]]:
        async def handle(data: bytes, call: _Call) -> bytes:
            return await self._answered(answer, data, call, Caller(call, self._secure))

        return handle

    def _stream(self, answer: Answer) -> Callable[[Any, _Call], Awaitable[None]]:
        async def handle(requests: Any, call: _Call) -> None:
            caller = Caller(call, self._secure)
            async for data in requests:
                await call.write(await self._answered(answer, data, call, caller))

        return handle

    def _client_stream(self, answer: Answer) -> Callable[[Any, _Call], Awaitable[bytes]]:
        async def handle(requests: Any, call: _Call) -> bytes:
            caller, last = Caller(call, self._secure), b""
            async for data in requests:
                last = await self._answered(answer, data, call, caller)
            return last

        return handle

    async def _answered(self, answer: Answer, data: bytes, call: _Call, caller: Caller) -> bytes:
        try:
            return answer(data, caller)
        except InvalidInput as error:
            self._refused("invalid_input")
            await call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except NotAllowed as error:
            self._refused("not_allowed")
            await call.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except Exception:
            _log.exception("a call failed")
            await call.abort(grpc.StatusCode.INTERNAL, "the server failed; its log says why")
        raise AssertionError("abort raises")
