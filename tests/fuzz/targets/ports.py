"""Ports: what clients and servers send over HTTP/1.1, HTTP/2 and TLS.

Our own code is driven without a port where that is possible, so that the engine sees which code an input reaches. What
libraries do before our code gets anything (gRPC's server, OpenSSL) is driven over connections on loopback.
"""

import asyncio
import atexit
import http.client
import io
import itertools
import re
import socket
import ssl
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from prometheus_client import CollectorRegistry

from carico.config import HttpLimits, StatusConfig
from carico.extender.metrics import ExtenderMetrics
from carico.extender.server import _handler as extender_handler
from carico.http import health
from carico.http.key import StatusKey
from carico.http.server import HttpServer
from carico.http.tls import ServerTls
from carico.rpc.connection import CallFailed, Connection
from carico.rpc.messages import MAX_MESSAGE_BYTES
from carico.rpc.server import RpcServer
from tests.fuzz.target import Target
from tests.fuzz.targets.extender import REQUESTS, thesis_extender
from tests.kits.certificates import Certificates

PATIENCE_S = 5.0
_FOLDER = Path(tempfile.mkdtemp())


class Server:
    """What a handler needs of its server."""

    def spoke(self, connection):
        pass


def served(handler, data):
    """Return what a handler answers to a client that sends these bytes and then ends its side."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_S)
        theirs.settimeout(PATIENCE_S)
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):  # a server lets go of such a connection, too
            handler(theirs, ("127.0.0.1", 1), Server())
        with suppress(OSError):
            theirs.shutdown(socket.SHUT_WR)
        answer = b""
        while part := ours.recv(1 << 16):
            answer += part
    return data, answer


class Again:
    """A socket from which one answer after the other is read."""

    def __init__(self, stream):
        self._stream = stream

    def makefile(self, mode):
        return self._stream


GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


def answers_are_http(read):
    """What comes back is a sequence of whole answers, none with a status of 500."""
    data, content = read
    stream = io.BytesIO(content)
    stream.close = lambda: None
    answers = 0
    while stream.tell() < len(content):
        if content.startswith(GO_ON, stream.tell()):  # the body may never come, or be cut short
            stream.seek(len(GO_ON), io.SEEK_CUR)
            continue
        if not content.startswith(b"HTTP/", stream.tell()):
            return  # to HTTP/0.9, which knows neither status nor header
        answer = http.client.HTTPResponse(Again(stream), method="GET")
        answer.begin()
        assert 200 <= answer.status < 600
        assert answer.status != 500
        answer.read()
        answers += 1
    assert answers <= max(data.count(b"\n"), 1)


def _request(body, path=b"/filter", more=b""):
    return b"POST %b HTTP/1.1\r\nHost: a\r\n%bContent-Length: %d\r\n\r\n%b" % (path, more, len(body), body)


class ExtenderHandler(
    extender_handler(
        thesis_extender(),
        ExtenderMetrics(CollectorRegistry()),
        frozenset(),
        HttpLimits(body_bytes=4096, all_bodies_bytes=8192, request_timeout_s=PATIENCE_S, idle_timeout_s=PATIENCE_S),
    )
):
    disable_nagle_algorithm = False  # a pair of sockets has no such option


def _status_handler():
    key = _FOLDER / "key"
    key.write_text("of-the-test")
    return health._handler(
        CollectorRegistry(),
        {"/healthz": lambda: "", "/readyz": lambda: "not yet"},
        {"/nodes": lambda: b"[]"},
        {"/decisions/": str.encode},
        StatusKey(StatusConfig(key=str(key))),
    )


STATUS = _status_handler()


class Transport(asyncio.Transport):
    """Keeps nothing of what is sent."""

    def write(self, data):
        pass

    def abort(self):
        pass


ADDRESS = re.compile("0x[0-9a-f]+")
"""hpack's messages show memory: "Unable to decode HPACK integer representation from <memory at 0x7f...>"."""
LOOP = asyncio.new_event_loop()
atexit.register(LOOP.close)


async def _outcome(pieces):
    """Return what a request gets from a server that sends these pieces."""
    connection = Connection("localhost:1", "http")
    connection.connection_made(Transport())
    asking = asyncio.ensure_future(connection.request("/test.Echo/Stream", b"x" * 10))
    await asyncio.sleep(0)
    for piece in pieces:
        if not connection.closed:  # a transport that was aborted passes on nothing
            connection.data_received(piece)
            assert len(connection._received) <= MAX_MESSAGE_BYTES + (1 << 15)
    connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert asking.done()
    error = asking.exception()
    assert error is None or isinstance(error, CallFailed), error
    return (error.status, ADDRESS.sub("", error.details)) if error else asking.result()


def read_answer(data):
    """Bytes from a server, all at once and one by one."""
    return data, LOOP.run_until_complete(_outcome([data]))


def pieces_make_no_difference(read):
    data, outcome = read
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert LOOP.run_until_complete(_outcome(pieces)) == outcome


def _frames(headers, *parts, trailers=None):
    """What a gRPC server sends to the first request."""
    server = H2Connection(H2Configuration(client_side=False))
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")])
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    server.send_headers(1, headers)
    for part in parts:
        server.send_data(1, part)
    if trailers:
        server.send_headers(1, trailers, end_stream=True)
    return server.data_to_send()


OK = [(":status", "200"), ("content-type", "application/grpc")]
ANSWERS = (
    _frames(OK, b"\0\0\0\0\2ok"),
    _frames(OK, b"\0\0\0\0\2ok", trailers=[("grpc-status", "0")]),
    _frames(OK, b"\0\0\0", b"\0\2ok"),
    _frames([*OK, ("grpc-status", "3"), ("grpc-message", "no%20way")]),
    _frames([(":status", "503")]),
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
)


class Port:
    """A server on loopback, made with the first input."""

    def __init__(self, make, ask):
        self._make = make
        self._ask = ask
        self._server = None
        self._sent = itertools.count(1)

    def send(self, data):
        """Send bytes to the server; now and then, see whether it still serves."""
        if self._server is None:
            self._server = self._make()
            atexit.register(self._server.close)
        with socket.create_connection(("127.0.0.1", self._server.port), PATIENCE_S) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
            except TimeoutError:  # the server neither answers nor ends the connection
                raise
            except OSError:  # the server has ended it
                pass
        return self if next(self._sent) % 100 == 1 else None

    @staticmethod
    def still_serves(port):
        """Ask the server something sound."""
        if port is not None:
            port._ask(port._server.port)


def _rpc_server():
    return RpcServer(
        "test.Echo",
        {"Call": lambda data, caller: data},
        {"Stream": lambda data, caller: data},
        tls=None,
        insecure_loopback=True,
        host="127.0.0.1",
        port=0,
    )


def _call(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/test.Echo/Call")(b"hello", timeout=PATIENCE_S) == b"hello"


def _tls_server():
    tls = ServerTls(_pki().server("extender"), everybody=True)
    return HttpServer("fuzz", "127.0.0.1", 0, STATUS, tls=tls, connections=64, handshake_s=PATIENCE_S)


def _ask_over_tls(port):
    context = ssl.create_default_context(cafile=_pki().server("extender").ca)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context)
    with closing(connection):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"


@cache
def _pki():
    return Certificates(_FOLDER)


def _hello():
    """What a TLS client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


TLS = Port(_tls_server, _ask_over_tls)
RPC = Port(_rpc_server, _call)


def _client_bytes():
    """What a gRPC client sends for a call."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(
        1,
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/test.Echo/Call"),
            (":authority", "a"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ],
    )
    client.send_data(1, b"\0\0\0\0\5hello", end_stream=True)
    return client.data_to_send()


TARGETS = [
    Target(
        "ports.extender",
        "HTTP/1.1 to the extender",
        lambda data: served(ExtenderHandler, data),
        (),
        answers_are_http,
        (
            _request(REQUESTS[2]),
            _request(REQUESTS[0]) * 2,
            _request(b"{}", more=b"Expect: 100-continue\r\n"),
            _request(b"{}", b"/other"),
            b"GET / HTTP/1.0\r\n\r\n",
        ),
    ),
    Target(
        "ports.status",
        "HTTP/1.1 to the status port",
        lambda data: served(STATUS, data),
        (),
        answers_are_http,
        (
            b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /readyz HTTP/1.1\r\n\r\n",
            b"GET /metrics HTTP/1.0\r\n\r\n",
            b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n",
        ),
        longest=1024,
    ),
    Target(
        "ports.grpc_client",
        "HTTP/2 to an agent, from a server",
        read_answer,
        (),
        pieces_make_no_difference,
        ANSWERS,
        longest=1024,
    ),
    Target(
        "ports.grpc_server",
        "HTTP/2 to a gRPC server",
        RPC.send,
        (),
        Port.still_serves,
        (_client_bytes(),),
        longest=1024,
    ),
    Target(
        "ports.tls",
        "TLS to the status port",
        TLS.send,
        (),
        Port.still_serves,
        (_hello(), b"GET / HTTP/1.1\r\n\r\n"),
        longest=1024,
    ),
]
