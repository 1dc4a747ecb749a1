"""The gRPC server over real sockets: how much whoever connects can use up."""

import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, TrailersReceived

from carico.errors import Unreachable
from carico.rpc.clients import Client
from carico.rpc.connection import STATUS
from carico.rpc.server import STREAMS_EACH, RpcServer
from carico.rpc.tls import ClientTls, PemFiles
from tests.kits.blocking import Blocking

DEADLINE_S = 10.0
CALL, STREAM = "/test.Echo/Call", "/test.Echo/Stream"


class Echo:
    """A server that answers every message with itself."""

    def __init__(self, tls=None, **options):
        self.refused = []
        self._server = RpcServer(
            "test.Echo",
            {"Call": lambda data, caller: data},
            {"Stream": lambda data, caller: data},
            tls=tls,
            insecure_loopback=True,
            host="127.0.0.1",
            port=0,
            refused=self.refused.append,
            **options,
        )
        self.address = "127.0.0.1", self._server.port
        self.target = f"127.0.0.1:{self._server.port}"
        self.close = self._server.close

    def open_calls(self):
        return len(self._server._open)


@pytest.fixture
def serve():
    with ExitStack() as stack:

        def start(**options):
            server = Echo(**options)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def connect():
    """Return a function that connects a client, which is closed afterwards."""
    with ExitStack() as stack:

        def run(server, files=None):
            client = Client(server.target, files and ClientTls(files), DEADLINE_S)
            return stack.enter_context(Blocking(client))

        yield run


@contextmanager
def half_open(server, method, number, files=None):
    """Calls that never send anything, over a connection of their own."""
    ended = threading.Event()

    def nothing():
        ended.wait()
        yield from ()

    options = [("grpc.use_local_subchannel_pool", 1)]
    if files is None:
        channel = grpc.insecure_channel(server.target, options)
    else:
        pem = PemFiles(files)
        credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)
        channel = grpc.secure_channel(server.target, credentials, options)
    with channel:
        calls = [channel.stream_stream(method)(nothing()) for _ in range(number)]
        try:
            yield calls
        finally:
            ended.set()


def refusal(client):
    """Return why a server takes no more calls."""
    said = ""
    # Where the refusal overtakes the message, the client knows of the message alone that it could not be sent.
    while "RESOURCE_EXHAUSTED" not in said:
        with pytest.raises(Unreachable) as refused:
            client.request(STREAM, b"x")
        said = str(refused.value)
    return said


class TestConnections:
    def test_are_limited_and_one_that_ends_makes_room(self, serve, connect, until):
        server = serve(most_callers=2)
        first, second = connect(server), connect(server)
        assert [client.request(STREAM, b"x") for client in (first, second)] == [b"x"] * 2
        with socket.create_connection(server.address, DEADLINE_S) as third:
            assert third.recv(1000) == b""
        assert [client.request(STREAM, b"x") for client in (first, second)] == [b"x"] * 2
        first.close()

        def fits():
            with socket.create_connection(server.address, DEADLINE_S) as another:
                return another.recv(1000) != b""

        until(fits)

    def test_whose_handshake_fails_make_room_at_once(self, serve, connect, pki):
        server = serve(tls=pki.server("echo"), most_callers=1)
        for _ in range(20):
            with socket.create_connection(server.address, DEADLINE_S) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while stranger.recv(1000):
                    pass
        assert connect(server, pki.node("node-a")).request(STREAM, b"x") == b"x"


class TestCallsThatNeverSendAnything:
    @pytest.mark.parametrize("method", [CALL, STREAM])
    def test_count_for_the_certificate(self, serve, connect, pki, until, method):
        server = serve(tls=pki.server("echo"))
        with half_open(server, method, STREAMS_EACH, pki.node("node-a")):
            until(lambda: server.open_calls() == STREAMS_EACH)
            why = refusal(connect(server, pki.node("node-a")))
            assert "RESOURCE_EXHAUSTED: 4 streams may be open for each name of a certificate" in why
            assert connect(server, pki.node("node-b")).request(STREAM, b"x") == b"x"
        assert set(server.refused) == {"too_many_streams"}

    @pytest.mark.parametrize("method", [CALL, STREAM])
    def test_count_for_the_server(self, serve, connect, until, method):
        server = serve(most_callers=3)
        with half_open(server, method, 3):
            until(lambda: server.open_calls() == 3)
            why = refusal(connect(server))
            assert "RESOURCE_EXHAUSTED: 3 calls may be open, and so many are: call again later" in why
        until(lambda: not server.open_calls())
        assert connect(server).request(STREAM, b"x") == b"x"

    def test_are_few_on_a_connection(self, serve, connect, until):
        server = serve()
        with half_open(server, STREAM, 100):
            until(lambda: server.open_calls() == 2 * STREAMS_EACH)
            assert connect(server).request(STREAM, b"x") == b"x"
            assert server.open_calls() == 2 * STREAMS_EACH + 1


def called(method, sent=bytes(4) + b"\x01x", **metadata):
    """Return a client's side of HTTP/2 that has called a method and sent a message, or the beginning of one."""
    http = H2Connection(H2Configuration(header_encoding="utf-8"))
    http.initiate_connection()
    head = {":method": "POST", ":scheme": "https", ":path": method, ":authority": "localhost", "te": "trailers"}
    http.send_headers(1, [*head.items(), ("content-type", "application/grpc"), *metadata.items()])
    http.send_data(1, sent)
    return http


def status_of(http, client):
    """Return the status with which a server ends the call."""
    headers = {}
    while "grpc-status" not in headers:
        for event in http.receive_data(client.recv(65536)):
            if isinstance(event, (ResponseReceived, TrailersReceived)):
                headers |= dict(event.headers)
    return STATUS[int(headers["grpc-status"])]


def test_a_message_that_is_too_long_is_refused_by_its_length_alone(serve):
    http = called(STREAM, bytes(1) + (1 << 30).to_bytes(4, "big"))
    with socket.create_connection(serve().address, DEADLINE_S) as client:
        client.sendall(http.data_to_send())
        assert status_of(http, client) == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_whoever_resumes_a_session_shows_no_certificate_and_is_refused(serve, pki, version):
    server, files = serve(tls=pki.server("echo")), pki.node("node-a")
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["h2"])
    context.maximum_version = version
    session, statuses = None, []
    for _ in range(2):
        http = called(CALL)
        with (
            socket.create_connection(server.address, DEADLINE_S) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as client,
        ):
            client.sendall(http.data_to_send())
            statuses.append(status_of(http, client))
            session = client.session
    assert statuses == ["OK", "UNAUTHENTICATED"]
    assert server.refused == ["not_allowed"]


RUDE = """
import socket, sys
from carico.rpc.server import RpcServer

server = RpcServer("test.Echo", {}, {}, tls=None, insecure_loopback=True, host="127.0.0.1", port=0)
with socket.create_connection(("127.0.0.1", server.port)) as client:
    client.sendall(sys.stdin.buffer.read())
    client.recv(1000)
    client.recv(1000)
server.close()
"""


def test_calls_that_grpc_cannot_read_are_not_logged_by_it():
    said = called(CALL, **{"grpc-timeout": "soon"}).data_to_send()
    ran = subprocess.run([sys.executable, "-c", RUDE], input=said, capture_output=True, check=True)
    assert ran.stderr == b""
