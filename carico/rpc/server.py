"""The gRPC server of CARICO's processes: secured, in a thread of its own, robust to malformed input.

It uses asyncio: one thread serves all connections, so that ten thousand idle streams cost memory but no threads, and a
stream carries about twice as many messages a second as separate calls. Handlers must therefore not block. They get
bytes, which `carico.rpc.messages` reads; bytes that are not a message are answered like any other bad input.

Whoever connects can only use up so much. There is a limit to the calls of a connection, of a certificate and of all, to
the size of a message, and to connections: in all, and of an address to those that carry no call. A connection must have
shaken hands within ten seconds, and ends when it has carried no call for as long. A call may be silent for as long as
it likes, because agents' streams last, but it counts from its beginning, before its first message.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import grpc
from grpc import aio

from carico.config import CONNECTION_AGE_S, TlsFiles
from carico.errors import InvalidConfig, InvalidInput
from carico.logs import FewLines
from carico.rpc.identity import owners, resumed
from carico.rpc.idle_connections import EACH, IdleConnections, Peer, peer_of
from carico.rpc.loop import LoopThread
from carico.rpc.messages import MAX_MESSAGE_BYTES
from carico.rpc.tls import PemFiles, require_loopback

_log = logging.getLogger(__name__)

STREAMS_EACH = 4
"""Calls that may be open per name of a certificate: an agent has one stream, and a second one until the server notices
that the first is broken."""
MOST_CALLERS = 20_000
"""Connections, and calls, that may be open. Each of 10,000 agents has one connection with one stream, and a second one
until the server notices that the first is broken; two schedulers' or aggregation servers' calls add a few."""

_OTHER_FILES = 128
"""Files that a process needs besides connections: journal, certificates, connections to the API server."""
_LOOK_EVERY_S = 0.25
"""How often is checked whether there may be too many connections without a call: grpcio accepts some ten thousand a
second."""
_LOOK_AGAIN_S = 1.0
"""How long not to look again if there were many, but not too many: a look takes milliseconds for each thousand."""

_OPTIONS = (
    ("grpc.max_receive_message_length", 4 * MAX_MESSAGE_BYTES),  # messages that the library refuses are not counted
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.max_concurrent_streams", 2 * STREAMS_EACH),  # of a connection; with fewer, clients would wait unrefused
    ("grpc.http2.bdp_probe", 0),  # it would send a ping for every message, to tune flow control for large ones
    ("grpc.so_reuseport", 0),  # a second server on the port is an error
    ("grpc.server_handshake_timeout_ms", 10_000),  # ends connections of clients that send nothing
    ("grpc.max_connection_idle_ms", 10_000),  # ends connections of clients that have shaken hands and call nothing
    ("grpc.max_connection_age_grace_ms", 100),  # calls are answered at once
    ("grpc.keepalive_time_ms", 60_000),  # finds out that a client has vanished
)

_Counted = TypeVar("_Counted")
_Call: TypeAlias = "aio.ServicerContext[bytes, bytes]"


class NotAllowed(Exception):
    """The caller's certificate does not allow the call."""


class Caller:
    """The identity of a caller, established once per call or stream."""

    def __init__(self, call: _Call, secure: bool) -> None:
        self.owners = owners(call) if secure else None
        """The URIs of the caller's certificate; None over plain text."""

    def must_be(self, owner: str) -> None:
        """Check that the caller's certificate is for `owner`; over plain text on loopback, every caller passes.

        Raises
        ------
        NotAllowed
            If the certificate is for another owner.
        """
        if self.owners is not None and owner not in self.owners:
            raise NotAllowed(
                f"a certificate with the URI {owner} is needed, got {', '.join(sorted(self.owners)) or 'none'}"
            )


Answer = Callable[[bytes, Caller], bytes]
"""Answers a message; raises InvalidInput or NotAllowed. It is called in the server's thread and must not block."""
StreamAnswer = Callable[[bytes, Caller], bytes | None]
"""The same for a message of a stream; None sends no answer."""
OnRefused = Callable[[str], None]
"""Called with the reason of every refusal: ``invalid_input``, ``not_allowed``, ``too_many_streams`` or
``too_many_connections``."""


def server_credentials(files: TlsFiles, for_nodes: bool = False) -> grpc.ServerCredentials:
    """Return the credentials of a server that requires a certificate of the same CA from every client.

    Parameters
    ----------
    files : TlsFiles
    for_nodes : bool, optional
        Whether a certificate of the CA of nodes will do, too, if there is such a CA.

    Raises
    ------
    InvalidConfig
        If the files are not a certificate, its key and a CA.
    """
    pem = PemFiles(files)

    def configuration() -> grpc.ServerCertificateConfiguration:
        trusted = pem.callers_ca if for_nodes else pem.ca
        return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], trusted)

    def replaced() -> grpc.ServerCertificateConfiguration | None:
        return configuration() if pem.changed() else None

    return grpc.dynamic_ssl_server_credentials(
        configuration(),
        replaced,  # type: ignore[arg-type]  # None means no change, which the types do not know
        require_client_authentication=True,
    )


class RpcServer:
    """Serves one gRPC service until it is closed.

    Parameters
    ----------
    service : str
        The service's full name, ``carico.v1.Aggregation``.
    unary, streams : mapping of str to callable
        Functions that answer messages, by method; for a stream, each of its messages.
    tls : TlsFiles or None
        None is plain text, for a loopback address and only with `insecure_loopback`.
    host, port
        Where to listen; port 0 lets the system choose.
    refused : callable, optional
    connection_age_s : float, optional
        The age, give or take a tenth, at which a connection is ended; the client then makes a new one.
    most_callers : int, optional
        How many connections, and how many calls, may be open, as far as the system lets this process open files; half
        of the connections may carry no call.
    idle_each : int, optional
        How many connections of an address may carry no call.
    for_nodes : bool, optional
        Whether nodes call, so that certificates of their CA are trusted, see `TlsFiles`.

    Attributes
    ----------
    port : int
        The port that is listened on.
    loop : LoopThread
        Answers all messages.

    Raises
    ------
    InvalidConfig
        If the TLS files cannot be used, plain text is not allowed there, or the address cannot be served.
    """

    def __init__(
        self,
        service: str,
        unary: Mapping[str, Answer],
        streams: Mapping[str, StreamAnswer],
        *,
        tls: TlsFiles | None,
        insecure_loopback: bool,
        host: str,
        port: int,
        refused: OnRefused = lambda why: None,
        connection_age_s: float = CONNECTION_AGE_S,
        most_callers: int = MOST_CALLERS,
        idle_each: int = EACH,
        for_nodes: bool = False,
    ) -> None:
        self._connection_age_s = connection_age_s
        most_callers = self._most_callers = _possible(most_callers)
        self._secure = tls is not None
        self._refused = refused
        self._failed = FewLines(_log, logging.ERROR, "a call failed")
        self._cut = FewLines(_log, logging.WARNING, "connections without a call were cut, too many of an address")
        if tls is None:
            require_loopback(host, insecure_loopback)
        credentials = None if tls is None else server_credentials(tls, for_nodes)
        # On the wire, a call with one message each way is a stream of one. gRPC would pass on a unary call when its
        # message has arrived, and calls whose message never does would not be counted.
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            name: grpc.stream_stream_rpc_method_handler(self._stream(answer, once))
            for answers, once in ((unary, True), (streams, False))
            for name, answer in answers.items()
        }
        self._open: set[asyncio.Task[None]] = set()
        """Calls, of which streams last until one side ends them."""
        self._held: Counter[frozenset[str] | None] = Counter()
        """The number of open calls, by the names in the caller's certificate; None over plain text."""
        self._calling: Counter[Peer] = Counter()
        """The number of open calls, by the connection that carries them."""
        self._stopping = False
        self.loop = LoopThread("rpc")
        try:
            self._server, self.port = self.loop.run(
                self._listen(service, handlers=handlers, credentials=credentials, host=host, port=port)
            )
        except BaseException:
            self.loop.close()
            raise
        idle = IdleConnections(self.port, max(most_callers // 2, 1), idle_each)
        self._watching = self.loop.start(self._watch_connections(idle))

    def close(self, grace_s: float = 1.0) -> None:
        """Accept nothing more, end the streams, and return when all calls have ended, within `grace_s` seconds."""
        if self.loop.is_alive():
            self.loop.run(self._stop(grace_s))
        self.loop.close()

    async def _stop(self, grace_s: float) -> None:
        stopped = asyncio.ensure_future(self._server.stop(grace_s))
        self._stopping = True
        self._watching.cancel()
        for stream in self._open:
            stream.cancel()
        await stopped

    async def _listen(
        self,
        service: str,
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]],
        credentials: grpc.ServerCredentials | None,
        host: str,
        port: int,
    ) -> tuple[aio.Server, int]:
        age = ("grpc.max_connection_age_ms", round(1e3 * self._connection_age_s))
        # grpcio would go on accepting until the process could open no other file.
        connections = ("grpc.max_allowed_incoming_connections", self._most_callers)
        server = aio.server(options=(*_OPTIONS, age, connections))
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
            why = str(error).partition(";")[0]  # the rest advises to debug gRPC
            raise InvalidConfig(f"nothing can be served on {address}: {why}; is the port taken?") from error
        await server.start()
        return server, bound

    def _stream(self, answer: StreamAnswer, once: bool) -> Callable[[Any, _Call], Awaitable[None]]:
        async def carry(requests: Any, call: _Call, caller: Caller) -> None:
            async for data in requests:
                answered = await self._answered(answer, data, call, caller)
                if answered is not None:
                    await call.write(answered)
                if once:
                    return

        async def handle(requests: Any, call: _Call) -> None:
            if resumed(call):
                self._refused("not_allowed")
                await call.abort(
                    grpc.StatusCode.UNAUTHENTICATED,
                    "a TLS session was resumed, which shows no certificate: connect without resuming one",
                )
            caller = Caller(call, self._secure)
            with self._place(caller, peer_of(call.peer())) as why_not:
                if why_not:
                    self._refused("too_many_streams")
                    await call.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why_not)
                await hold(asyncio.ensure_future(carry(requests, call, caller)), call)

        async def hold(stream: asyncio.Task[None], call: _Call) -> None:
            self._open.add(stream)
            try:
                await stream
            except asyncio.CancelledError:
                if not self._stopping:  # the caller is gone
                    raise
                await call.abort(grpc.StatusCode.UNAVAILABLE, "the server is being stopped")
            finally:
                self._open.discard(stream)

        return handle

    @contextmanager
    def _place(self, caller: Caller, peer: Peer) -> Iterator[str]:
        """Count one more call of the caller, and yield why it may not stay open; an empty text means that it may."""
        if len(self._open) >= self._most_callers:
            yield f"{self._most_callers} calls may be open, and so many are: call again later"
            return
        names = caller.owners
        if names is not None and self._held[names] >= STREAMS_EACH * max(len(names), 1):
            yield f"{STREAMS_EACH} streams may be open for each name of a certificate, and so many are: end one"
            return
        with _counted(self._calling, peer), _counted(self._held, names):
            yield ""

    async def _watch_connections(self, idle: IdleConnections) -> None:
        """Cut connections without a call of addresses that have too many."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            while idle.may_be_too_many(len(self._calling)):
                cut = idle.cut(self._calling)
                for address, number in cut.items():
                    self._cut.add(f"{number} were cut", client=address)
                    for _ in range(number):
                        self._refused("too_many_connections")
                await asyncio.sleep(_LOOK_EVERY_S if cut else _LOOK_AGAIN_S)

    async def _answered(self, answer: StreamAnswer, data: bytes, call: _Call, caller: Caller) -> bytes | None:
        try:
            if len(data) > MAX_MESSAGE_BYTES:
                raise InvalidInput(
                    f"a message has at most {MAX_MESSAGE_BYTES} bytes, got {len(data)}: send smaller ones"
                )
            return answer(data, caller)
        except InvalidInput as error:
            self._refused("invalid_input")
            await call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except NotAllowed as error:
            self._refused("not_allowed")
            await call.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except Exception as error:
            self._failed.add(repr(error), exc_info=error)
            await call.abort(grpc.StatusCode.INTERNAL, "the server failed; its log says why")
        raise AssertionError("abort raises")


@contextmanager
def _counted(counter: Counter[_Counted], what: _Counted) -> Iterator[None]:
    """Count something for the length of a block."""
    counter[what] += 1
    try:
        yield
    finally:
        counter[what] -= 1
        if not counter[what]:
            del counter[what]


def _possible(callers: int) -> int:
    """Return how many of so many connections the system lets this process have; raises what it may have if it can."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = callers + _OTHER_FILES
    if few < wanted and few != most:
        few = min(wanted, most) if most != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    if few == resource.RLIM_INFINITY or few >= wanted:
        return callers
    possible = max(few - _OTHER_FILES, few // 2)
    if possible < callers // 2:
        _log.warning(
            "%d connections are possible, not %d: raise the limit on open files (ulimit -n)", possible, callers
        )
    return possible
