"""The gRPC server over real sockets: how much whoever connects can use up."""

import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, TrailersReceived

from carico.errors import Unreachable
from carico.rpc.clients import Client
from carico.rpc.connection import STATUS
from carico.rpc.idle_connections import IdleConnections, open_files
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

    def connections_of(self, address):
        """How many connections an address has, with a call or without."""
        found = IdleConnections(self.address[1], 1 << 20)
        return [peer[0] for number in range(1 << 12) if (peer := found._peer(number))].count(address)


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


HOSTILE = """
import socket, ssl, sys
from contextlib import suppress
from h2.config import H2Configuration
from h2.connection import H2Connection

port, number, calls, certificate, key, ca = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
context = ssl.create_default_context(cafile=ca)
context.load_cert_chain(certificate, key)
context.set_alpn_protocols(["h2"])
held, made = [], 0
while made < number:
    with suppress(OSError):
        plain = socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0))
        held.append(context.wrap_socket(plain, server_hostname="127.0.0.1"))
        http = H2Connection(H2Configuration(header_encoding="utf-8"))
        http.initiate_connection()
        for stream in range(calls):
            head = {":method": "POST", ":scheme": "https", ":path": "/test.Echo/Stream", ":authority": "localhost"}
            http.send_headers(2 * stream + 1, [*head.items(), ("te", "trailers"), ("content-type", "application/grpc")])
        held[-1].sendall(http.data_to_send())
    made += 1
    if made % 10 == 0:
        print(made, flush=True)
sys.stdin.read()
"""


def memory_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


class TestOnePeer:
    """A node opens as many connections as it can, and keeps them; a connection of another one is not theirs to take."""

    @contextmanager
    def hostile(self, server, files, number, calls=0):
        """A node at 127.0.0.2 that opens so many connections, each with so many calls that send nothing."""
        arguments = map(str, (server.address[1], number, calls, files.certificate, files.key, files.ca))
        with subprocess.Popen(
            [sys.executable, "-c", HOSTILE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.stdin.close()

    def test_keeps_no_other_out_by_connections_without_a_call(self, serve, connect, pki, until):
        server = serve(tls=pki.server("echo"), most_callers=40, idle_each=8)
        known = connect(server, pki.node("node-a"))
        assert known.request(STREAM, b"x") == b"x"
        with self.hostile(server, pki.node("node-b"), 60) as process:
            assert process.stdout.readline() == "10\n"

            def starts():
                starting = Client(server.target, ClientTls(pki.node("node-c")), DEADLINE_S)
                with suppress(Unreachable), Blocking(starting) as client:
                    return client.request(STREAM, b"x") == b"x"

            for line in process.stdout:
                until(starts)
                assert known.request(STREAM, b"x") == b"x"
                if line == "60\n":
                    break
            until(lambda: server.connections_of("127.0.0.2") <= 8)
        assert set(server.refused) == {"too_many_connections"}

    def test_has_few_calls_however_many_it_begins_while_others_are_answered(self, serve, connect, pki, until):
        server = serve(tls=pki.server("echo"), idle_each=16)
        known = connect(server, pki.node("node-a"))
        assert known.request(STREAM, b"x") == b"x"
        before = memory_mib()
        with self.hostile(server, pki.node("node-b"), 200, calls=2 * STREAMS_EACH) as process:
            for line in process.stdout:
                assert known.request(STREAM, b"x") == b"x"
                assert server.open_calls() <= 1 + STREAMS_EACH
                if line == "200\n":
                    break
            until(lambda: server.connections_of("127.0.0.2") <= 16 + STREAMS_EACH)
            assert known.request(STREAM, b"x") == b"x"
        assert memory_mib() - before < 64
        assert set(server.refused) == {"too_many_connections", "too_many_streams"}

    def test_is_not_named_in_the_log_more_than_ten_times_a_minute(self, serve, pki, until, caplog):
        server = serve(tls=pki.server("echo"), idle_each=1)
        for times in range(1, 13):
            with ExitStack() as held:
                for _ in range(3):
                    held.enter_context(socket.create_connection(server.address, DEADLINE_S))
                until(lambda times=times: len(server.refused) >= 2 * times)
        assert len([line for line in caplog.messages if line.startswith("connections without a call were cut")]) == 10


class TestIdleConnections:
    @contextmanager
    def connected(self, **of_address):
        """Yield the port of a server and its connections, so many from each of 127.0.0.2 and 127.0.0.3."""
        with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as held:
            for address, number in of_address.items():
                for _ in range(number):
                    client = ("127.0.0." + address[-1], 0)
                    held.enter_context(socket.create_connection(listening.getsockname(), DEADLINE_S, client))
                    held.enter_context(listening.accept()[0])
            yield listening.getsockname()[1]

    def test_only_addresses_with_too_many_lose_some(self):
        with self.connected(at_2=7, at_3=3) as port:
            assert IdleConnections(port, most=100, each=4).cut(()) == {"127.0.0.2": 3}

    def test_if_there_are_too_many_in_all_those_with_many_lose_first(self):
        with self.connected(at_2=20, at_3=2) as port:
            assert IdleConnections(port, most=6, each=16).cut(()) == {"127.0.0.2": 16}

    def test_who_calls_loses_nothing(self):
        with self.connected(at_2=5) as port:
            idle = IdleConnections(port, most=100, each=1)
            everybody = {("127.0.0.2", number) for number in range(65536)}
            assert idle.cut(everybody) == {}
            assert idle.cut(()) == {"127.0.0.2": 4}

    def test_it_is_noticed_that_there_may_be_too_many(self):
        files = open_files()
        with self.connected(at_2=2) as port:
            assert open_files() == files + 5
            idle = IdleConnections(port, most=1 << 20, each=files + 4)
            assert (idle.may_be_too_many(0), idle.may_be_too_many(1)) == (True, False)

    def test_addresses_of_ipv6_are_read(self):
        with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
            address = listening.getsockname()[1]
            clients = [socket.create_connection((host, address), DEADLINE_S) for host in ("::1", "127.0.0.1", "::1")]
            accepted = [listening.accept()[0] for _ in clients]
            assert IdleConnections(address, most=100, each=0).cut(()) == {"::1": 2, "127.0.0.1": 1}
            for connection in (*clients, *accepted):
                connection.close()


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


def test_a_method_whose_name_is_no_text_does_not_end_the_server(serve, connect):
    server = serve()
    with socket.create_connection(server.address, DEADLINE_S) as client:
        client.sendall(called(b"/test.Echo/\xc0").data_to_send())
        with suppress(OSError):
            client.recv(1)  # grpcio's settings; what it makes of the call comes afterwards, if at all
        for _ in range(3):
            assert connect(server).request(CALL, b"x") == b"x"


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


LIMITED = """
import resource, socket
from carico.rpc.server import RpcServer

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400))
server = RpcServer("test.Echo", {}, {}, tls=None, insecure_loopback=True, host="127.0.0.1", port=0)
print(resource.getrlimit(resource.RLIMIT_NOFILE), server._most_callers)
server.close()
"""


def test_there_are_no_more_connections_than_the_system_lets_a_process_have():
    ran = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, check=True, text=True)
    assert ran.stdout == "(400, 400) 272\n"
    assert "272 connections are possible, not 20000: raise the limit on open files" in ran.stderr


def test_calls_that_grpc_cannot_read_are_not_logged_by_it():
    said = called(CALL, **{"grpc-timeout": "soon"}).data_to_send()
    ran = subprocess.run([sys.executable, "-c", RUDE], input=said, capture_output=True, check=True)
    assert ran.stderr == b""
