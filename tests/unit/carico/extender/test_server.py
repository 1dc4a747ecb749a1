"""The extender over real sockets: what is asked, refused, and what clients that misbehave can do to others."""

import http.client
import json
import select
import socket
import ssl
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from carico.config import HttpLimits
from carico.errors import InvalidConfig
from carico.extender.server import serve_extender
from carico.http.server import HANDSHAKES
from carico.http.tls import ServerTls
from tests.kits.certificates import Certificates

from .conftest import request

SCHEDULER = "carico:server:kube-scheduler"


@pytest.fixture
def served(harness):
    """Return a function that serves the extender and returns the server."""
    with ExitStack() as stack:

        def serve(tls=None, clients=(), **limits):
            server = serve_extender(
                harness.extender,
                harness.extender._metrics,
                host="127.0.0.1",
                port=0,
                tls=tls and ServerTls(tls),
                clients=frozenset(clients),
                limits=HttpLimits(**limits),
            )
            return stack.enter_context(server)

        harness.report(a=3, b=2)
        yield serve


def post(connection, body, path="/filter", **headers):
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def head(length):
    """The head of a question whose body has so many bytes."""
    return b"POST /filter HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % length


@contextmanager
def silent_after(server, *said):
    """Clients of which each says so much, and then nothing."""
    with ExitStack() as stack:
        address = "127.0.0.1", server.port
        clients = [stack.enter_context(socket.create_connection(address, timeout=5)) for _ in said]
        for client, words in zip(clients, said, strict=True):
            client.sendall(words)
        yield clients


@pytest.fixture
def connect():
    """Return a function that connects a client, which is closed afterwards."""
    with ExitStack() as stack:

        def run(server, context=None):
            if context is None:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
            else:
                connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=5, context=context)
            return stack.enter_context(closing(connection))

        yield run


def client_context(files):
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.certificate, files.key)
    return context


class TestHttp:
    def test_a_connection_is_kept_for_many_questions(self, served, connect, harness):
        connection = connect(served())
        answers = [post(connection, request(f"u{i}", ["a", "b"])) for i in range(5)]
        chosen = [json.loads(body)["NodeNames"] for _, body in answers]
        assert chosen == [["a"], ["a"], ["b"], ["a"], ["b"]]
        assert len(harness.plugin.ledger) == 5

    def test_a_connection_that_is_old_ends_with_its_answer(self, served, connect):
        connection = connect(served(connection_age_s=1e-9))
        for uid in ("u1", "u2"):
            connection.request("POST", "/filter", request(uid, ["a"]))
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("Connection")) == (200, "close")
            answer.read()

    def test_many_may_ask_at_once(self, served, connect, harness):
        server = served()
        harness.report(a=50, b=50)

        def ask(first):
            connection = connect(server)
            for i in range(10):
                assert post(connection, request(f"u{first + i}", ["a", "b"]))[0] == 200

        threads = [threading.Thread(target=ask, args=(10 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (harness.reserved("a"), harness.reserved("b")) == (40, 40)

    @pytest.mark.parametrize("body", [b"", b"{}", b"nonsense", request("u", [3])])
    def test_what_is_no_question_gets_400_with_a_text_and_the_connection_stays(self, served, connect, harness, body):
        connection = connect(served())
        status, text = post(connection, body)
        assert status == 400
        assert b"ExtenderArgs" in text
        assert post(connection, request("u1", ["a"]))[0] == 200
        assert harness.metric("carico_extender_bad_requests_total", status="400") == 1
        assert harness.metric("carico_extender_decisions_total", result="error") == 1
        assert len(harness.plugin.ledger) == 1

    def test_nothing_is_decided_before_pods_are_known(self, served, connect, harness):
        harness.extender.pods_listed(False)
        status, text = post(connect(served()), request("u1", ["a"]))
        assert (status, text) == (503, b"pods have not been listed yet\n")

    def test_another_path_is_refused(self, served, connect):
        assert post(connect(served()), b"{}", "/prioritize")[0] == 404

    def test_a_body_that_is_too_large_is_refused_unread(self, served, connect, harness):
        server = served(body_bytes=1024)
        status, text = post(connect(server), request("u1", ["n" * 2000]))
        assert (status, b"at most 1024 bytes" in text) == (413, True)
        assert post(connect(server), request("u1", ["a"]))[0] == 200

    def test_so_is_one_for_which_the_others_leave_no_room(self, served, harness):
        server = served(body_bytes=1024, all_bodies_bytes=1500)
        with silent_after(server, head(900), head(800)) as clients:
            (second,), _, _ = select.select(clients, [], [], 5)  # whose body need not be sent
            status, *headers, _, text = second.recv(1000).split(b"\r\n")
        assert b" 503 " in status
        assert b"Retry-After: 1" in headers
        assert b"may have 1500 bytes" in text
        assert harness.metric("carico_extender_bad_requests_total", status="503") == 1

    @pytest.mark.parametrize("body", [b"nonsense" * 100, request("u1", ["a", "b" * 250, "c" * 250]), None])
    def test_the_room_is_free_again_however_a_request_ends(self, served, connect, until, body):
        server = served(body_bytes=1024, all_bodies_bytes=1024)
        if body is None:
            with silent_after(server, head(1024)):
                until(lambda: post(connect(server), request("u2", ["a"]))[0] == 503)
        else:
            connection = connect(server)
            assert [post(connection, body)[0] for _ in range(3)] == [400 if body.startswith(b"n") else 200] * 3
        until(lambda: post(connect(server), request("u3", ["a", "b" * 250, "c" * 250]))[0] == 200)

    @pytest.mark.parametrize("length", ["-1", "x", "1e3", "²"])
    def test_a_length_that_is_none_is_refused(self, served, connect, length):
        connection = connect(served())
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Length", length.encode("latin-1"))
        connection.endheaders()
        assert connection.getresponse().status == 411

    def test_a_chunked_body_is_refused(self, served):
        # By its head alone: who sends on meets a connection that is closed already.
        with socket.create_connection(("127.0.0.1", served().port), timeout=5) as client:
            client.sendall(b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert b" 411 " in client.recv(1000)

    def test_what_is_no_http_is_answered_counted_and_cut(self, served, connect, harness):
        server = served()
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
            client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
            assert b"400" in client.recv(1000)
        assert harness.metric("carico_extender_bad_requests_total", status="400") == 1
        assert post(connect(server), request("u1", ["a"]))[0] == 200

    def test_another_verb_is_refused_and_counted(self, served, connect, harness):
        connection = connect(served())
        connection.request("GET", "/filter")
        assert connection.getresponse().status == 501
        assert harness.metric("carico_extender_bad_requests_total", status="501") == 1


class TestMisbehaviour:
    def test_clients_that_fall_silent_are_cut_and_block_nobody(self, served, connect):
        server = served(request_timeout_s=0.5, idle_timeout_s=0.5)
        with silent_after(server, b"", b"POST /fil", head(100) + b"half") as clients:
            assert post(connect(server), request("u1", ["a"]))[0] == 200
            assert [client.recv(1000) for client in clients] == [b""] * 3

    def test_a_body_that_comes_byte_by_byte_is_late_as_a_whole(self, served, harness):
        server, sent = served(request_timeout_s=0.3), 0
        with silent_after(server, head(1000)) as (client,), suppress(ConnectionError):
            while not select.select([client], [], [], 0.02)[0]:
                client.sendall(b"x")
                sent += 1
            assert client.recv(1000) == b""
        assert sent < 1000
        assert harness.metric("carico_extender_bad_requests_total", status="400") == 1

    def test_there_are_so_many_connections_and_who_has_been_silent_for_longest_makes_room(self, served, connect):
        server = served(connections=2)
        asking = connect(server)
        assert post(asking, request("u1", ["a"]))[0] == 200
        with socket.create_connection(("127.0.0.1", server.port), 5) as silent:
            while len(server._places) < 2:
                assert post(asking, request("u1", ["a"]))[0] == 200
            assert post(asking, request("u1", ["a"]))[0] == 200
            with socket.create_connection(("127.0.0.1", server.port), 5) as another:
                assert silent.recv(10) == b""
                another.sendall(b"nonsense\r\n\r\n")
                assert another.recv(10)
        assert post(asking, request("u1", ["a"]))[0] == 200

    def test_a_question_that_is_cut_is_counted_and_changes_nothing(self, served, harness):
        server = served(request_timeout_s=0.5)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
            body = request("u1", ["a"])
            client.sendall(head(len(body)) + body[:-5])
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1000) == b""
        assert harness.metric("carico_extender_bad_requests_total", status="400") == 1
        assert len(harness.plugin.ledger) == 0

    def test_closing_cuts_those_who_are_connected(self, served, connect):
        server = served()
        connection = connect(server)
        assert post(connection, request("u1", ["a"]))[0] == 200
        server.close()
        with pytest.raises((OSError, http.client.HTTPException)):
            post(connection, request("u2", ["a"]))


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server_files(authority):
    return authority.server("extender")


class TestTls:
    @pytest.mark.parametrize(
        ("name", "status"),
        [(SCHEDULER, 200), ("localhost", 200), ("kube-scheduler", 403)],
        ids=["uri", "dns name", "common name"],
    )
    def test_who_has_the_name_may_ask(self, served, connect, authority, server_files, name, status):
        server = served(server_files, ["somebody", name])
        context = client_context(authority.server("kube-scheduler"))
        assert post(connect(server, context), request("u1", ["a"]))[0] == status

    def test_another_certificate_of_the_ca_may_not(self, served, connect, harness, authority, server_files):
        server = served(server_files, [SCHEDULER])
        context = client_context(authority.node("node-1"))
        assert post(connect(server, context), request("u1", ["a"]))[0] == 403
        assert len(harness.plugin.ledger) == 0

    def test_without_a_certificate_nobody_may(self, served, connect, server_files):
        server = served(server_files)
        with pytest.raises(OSError, match=r"."):
            post(connect(server, ssl.create_default_context(cafile=server_files.ca)), request("u1", ["a"]))

    def test_a_certificate_of_another_ca_is_none(self, served, connect, server_files, tmp_path):
        server = served(server_files)
        stranger = Certificates(tmp_path / "other").server("kube-scheduler")
        context = ssl.create_default_context(cafile=server_files.ca)
        context.load_cert_chain(stranger.certificate, stranger.key)
        with pytest.raises(OSError, match=r"."):
            post(connect(server, context), request("u1", ["a"]))

    def test_clients_without_a_handshake_block_nobody_and_are_cut(self, served, connect, authority, server_files):
        server = served(server_files, handshake_timeout_s=0.5)
        context = client_context(authority.server("kube-scheduler"))
        with silent_after(server, b"", b"\x16\x03\x01\x02") as clients:
            assert post(connect(server, context), request("u1", ["a"]))[0] == 200
            assert [client.recv(1000) for client in clients] == [b""] * 2

    @pytest.mark.parametrize("shakes_hands", [False, True])
    def test_nor_do_many_that_hold_all_places(self, served, connect, authority, server_files, shakes_hands):
        server = served(server_files, [SCHEDULER], connections=4)
        node = client_context(authority.node("node-1"))
        with ExitStack() as held:
            for _ in range(8):
                client = held.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
                if shakes_hands:
                    with suppress(OSError):  # on a busy machine the server refuses some, or cuts them meanwhile
                        held.enter_context(node.wrap_socket(client, server_hostname="127.0.0.1"))
            mine = client_context(authority.server("kube-scheduler"))
            assert post(connect(server, mine), request("u1", ["a"]))[0] == 200

    def test_strangers_who_say_nothing_take_no_place_from_who_has_a_certificate(
        self, served, connect, authority, server_files
    ):
        server = served(server_files, [SCHEDULER], connections=1)
        idle = connect(server, client_context(authority.server("kube-scheduler")))
        assert post(idle, request("u1", ["a"]))[0] == 200
        with silent_after(server, *[b""] * (2 * HANDSHAKES)) as strangers:
            # The last of them replace the first.
            assert [stranger.recv(1) for stranger in strangers[:HANDSHAKES]] == [b""] * HANDSHAKES
            assert post(idle, request("u2", ["a"]))[0] == 200

    def test_strangers_do_not_fill_the_log(self, served, until, server_files, caplog):
        caplog.set_level("INFO")
        server = served(server_files)
        with silent_after(server, *[b"nonsense\r\n\r\n"] * 50) as strangers:
            for stranger in strangers:
                with suppress(ConnectionError):
                    while stranger.recv(1000):
                        pass
        until(lambda: not server._handshakes)
        lines = [message for message in caplog.messages if message.startswith("extender: a connection failed: ")]
        assert len(lines) == 10

    def test_who_has_a_certificate_takes_the_place_of_whoever_has_been_silent_for_longest(
        self, served, connect, authority, server_files
    ):
        server = served(server_files, connections=1)
        first, second = (connect(server, client_context(authority.node(name))) for name in ("node-1", "node-2"))
        assert post(first, request("u1", ["a"]))[0] == 200
        assert post(second, request("u2", ["a"]))[0] == 200
        with pytest.raises((OSError, http.client.HTTPException)):
            post(first, request("u3", ["a"]))

    def test_one_certificate_takes_no_place_of_another_however_many_connections_it_opens(
        self, served, connect, authority, server_files
    ):
        server = served(server_files, [SCHEDULER], connections=3)
        asking = [connect(server, client_context(authority.server("kube-scheduler"))) for _ in range(2)]
        hostile = client_context(authority.node("node-1"))
        for number, mine in enumerate(asking):
            assert post(mine, request(f"first-{number}", ["a"]))[0] == 200
        with ExitStack() as held:
            for _ in range(20):
                plain = held.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
                with suppress(OSError):  # its own connections replace each other
                    held.enter_context(hostile.wrap_socket(plain, server_hostname="127.0.0.1"))
            for number, mine in enumerate(asking):  # over the connections of before, which were silent for longest
                assert post(mine, request(f"then-{number}", ["a"]))[0] == 200

    def test_one_address_takes_no_place_for_a_handshake_of_another(self, served, authority, server_files):
        server = served(server_files)
        with ExitStack() as held:
            mine = held.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            for _ in range(3 * HANDSHAKES):
                held.enter_context(socket.create_connection(("127.0.0.1", server.port), 5, ("127.0.0.2", 0)))
            context = client_context(authority.server("kube-scheduler"))
            held.enter_context(context.wrap_socket(mine, server_hostname="127.0.0.1"))

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_everybody_shows_a_certificate_and_resumes_no_session(self, served, authority, server_files, version):
        server, body = served(server_files, [SCHEDULER]), request("u1", ["a"])
        context = client_context(authority.server("kube-scheduler"))
        context.maximum_version = version
        session, answers = None, []
        with ExitStack() as opened:
            for _ in range(2):
                plain = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
                client = opened.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1", session=session))
                answer = b""
                with suppress(OSError):
                    client.sendall(head(len(body)) + body)
                    answer = client.recv(1000)
                session = client.session
                answers.append((client.session_reused, answer[9:12]))
        # TLS 1.2 resumes sessions that are still open, and the server breaks off.
        assert answers == [(False, b"200"), (True, b"") if version == ssl.TLSVersion.TLSv1_2 else (False, b"200")]

    def test_new_files_are_taken_up_and_spoilt_ones_are_not(self, authority, caplog):
        files = authority.server("renewed")
        tls = ServerTls(files)
        first = tls.current()
        assert tls.current() is first
        Path(files.certificate).unlink()
        authority.server("renewed")
        second = tls.current()
        assert second is not first
        Path(files.key).write_text("spoilt")
        assert tls.current() is second
        assert "not replaced" in caplog.text

    def test_files_that_are_no_good_are_refused_at_once(self, authority, tmp_path):
        files = authority.server("broken")
        (tmp_path / "empty").touch()
        with pytest.raises(InvalidConfig, match="must be a PEM certificate"):
            ServerTls(type(files)(files.certificate, str(tmp_path / "empty"), files.ca))
