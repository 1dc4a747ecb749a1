"""/healthz, /readyz and /metrics, over HTTP and HTTPS."""

import http.client
import select
import socket
import ssl
from contextlib import ExitStack, closing

import pytest
from prometheus_client import CollectorRegistry, Counter

from carico.config import StatusConfig
from carico.errors import InvalidConfig, InvalidInput
from carico.http.health import serve_status
from carico.http.server import MOST_HEAD_BYTES
from tests.kits.certificates import Certificates


@pytest.fixture
def serve():
    servers = []

    def start(ready="", healthy="", host="127.0.0.1"):
        registry = CollectorRegistry()
        Counter("carico_samples", "samples taken", registry=registry).inc(3)
        servers.append(serve_status(StatusConfig(host), None, registry, lambda: healthy, lambda: ready))
        return servers[-1]

    def configured(where, tls, pages=None, searches=None):
        servers.append(serve_status(where, tls, CollectorRegistry(), lambda: "", lambda: "", pages, searches))
        return servers[-1]

    start.configured = configured

    yield start
    for server in servers:
        server.close()


def get(server, path, method="GET", host="127.0.0.1", headers=None):
    with closing(http.client.HTTPConnection(host, server.port, timeout=5)) as connection:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_process_that_can_work_says_ok(serve):
    server = serve()
    assert get(server, "/healthz") == get(server, "/readyz") == (200, "ok\n")


@pytest.mark.parametrize("host", ["::1", "[::1]", "::"])
def test_it_may_listen_on_an_address_of_ipv6(serve, host):
    assert get(serve(host=host), "/healthz", host="::1") == (200, "ok\n")


def test_one_that_cannot_says_why(serve):
    server = serve(ready="no report yet")
    assert get(server, "/readyz") == (503, "no report yet\n")
    assert get(server, "/healthz") == (200, "ok\n")


def test_metrics_are_prometheus_text(serve):
    status, text = get(serve(), "/metrics")
    assert (status, "carico_samples_total 3.0" in text) == (200, True)


def test_anything_else_is_refused_with_what_there_is(serve):
    server = serve()
    assert get(server, "/") == (404, "try /healthz, /readyz or /metrics\n")
    assert get(server, "/metrics", "POST")[0] == 501


def test_a_page_about_one_thing_is_found_by_its_name(serve):
    def search(name):
        if not name:
            raise InvalidInput("give a name")
        return name.encode()

    server = serve.configured(StatusConfig(), None, searches={"/of/": search})
    assert get(server, "/of/jobs/pi%20x") == get(server, "/of/jobs%2Fpi%20x") == (200, "jobs/pi x")
    assert get(server, "/of/") == (400, "give a name\n")
    assert get(server, "/of") == (404, "try /healthz, /readyz, /of/NAME or /metrics\n")


def test_the_head_of_a_request_is_bounded(serve):
    server = serve()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
        for _ in range(3):  # each request has its own limit
            connection.request("GET", "/healthz", headers={"X-Padding": "a" * 10_000})
            assert connection.getresponse().read() == b"ok\n"
    begins = b"GET /healthz HTTP/1.1\r\nX-Padding: "
    for ends in (b"", b"\r\n"):  # in the middle of a line, and between two
        with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
            connection.sendall(begins.ljust(MOST_HEAD_BYTES - len(ends), b"a") + ends)
            assert connection.recv(100).startswith(b"HTTP/1.1 431 ")
    assert get(server, "/healthz") == (200, "ok\n")


def test_a_client_that_says_nothing_blocks_nobody(serve):
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port)):
        assert get(server, "/healthz")[0] == 200


def test_of_many_connections_the_one_that_is_silent_for_longest_makes_room(serve):
    server = serve()
    with ExitStack() as held:
        silent = [held.enter_context(socket.create_connection(("127.0.0.1", server.port), 5)) for _ in range(31)]
        asking = held.enter_context(closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)))
        for _ in range(2):
            asking.request("GET", "/healthz")
            assert asking.getresponse().read() == b"ok\n"
            assert get(server, "/healthz")[0] == 200
        ended, _, _ = select.select(silent, [], [], 5)
        assert {client.recv(10) for client in ended} == {b""}


def test_once_closed_nothing_is_served(serve):
    server = serve()
    port = server.port
    server.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=1)


class TestTls:
    def test_who_asks_needs_no_certificate(self, serve, tmp_path):
        server = serve.configured(StatusConfig(tls=True), Certificates(tmp_path).server("extender", "localhost"))
        context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        with closing(http.client.HTTPSConnection("localhost", server.port, timeout=5, context=context)) as connection:
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"

    def test_a_nodes_certificate_serves_a_kubelet_and_nobody_who_wants_a_servers(self, serve, tmp_path):
        """A kubelet's probe verifies nothing; to others a node must not pass for a server."""
        server = serve.configured(StatusConfig(tls=True), Certificates(tmp_path).node("node-a"))
        probe = ssl._create_unverified_context()
        with closing(http.client.HTTPSConnection("127.0.0.1", server.port, timeout=5, context=probe)) as connection:
            connection.request("GET", "/readyz")
            assert connection.getresponse().status == 200
        strict = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        strict.check_hostname = False
        with (
            pytest.raises(ssl.SSLCertVerificationError, match="purpose"),
            socket.create_connection(("127.0.0.1", server.port)) as plain,
        ):
            strict.wrap_socket(plain)

    def test_plain_text_is_not_answered(self, serve, tmp_path):
        server = serve.configured(StatusConfig(tls=True), Certificates(tmp_path).server("extender", "localhost"))
        with pytest.raises((http.client.HTTPException, OSError)):
            get(server, "/healthz")

    def test_without_a_certificate_it_is_refused(self):
        with pytest.raises(InvalidConfig, match="give `tls`, too"):
            serve_status(StatusConfig(tls=True), None, CollectorRegistry(), lambda: "", lambda: "")


def test_a_process_may_show_more(serve):
    server = serve.configured(StatusConfig(), None, {"/nodes": lambda: b"[]"})
    assert get(server, "/nodes") == (200, "[]")
    assert get(server, "/")[1] == "try /healthz, /readyz, /nodes or /metrics\n"


class TestPagesForWhoMayReadThem:
    """Kubelets and Prometheus need no key; what is known of nodes and workloads is not for everybody."""

    @pytest.fixture
    def key(self, tmp_path):
        (tmp_path / "key").write_text("of-the-test\n")
        return tmp_path / "key"

    @pytest.fixture
    def ask(self, serve, pki):
        """Return a function that asks for a path over TLS, with a header."""

        def run(path, where, headers):
            files = pki.server("extender", "localhost")
            server = serve.configured(where, files, {"/nodes": lambda: b"[]"}, {"/of/": str.encode})
            context = ssl.create_default_context(cafile=files.ca)
            with closing(
                http.client.HTTPSConnection("localhost", server.port, timeout=5, context=context)
            ) as connection:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        return run

    @pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
    def test_the_key_opens_them(self, ask, key, host):
        where = StatusConfig(host, tls=True, key=str(key))
        assert ask("/nodes", where, {"Carico-Key": "of-the-test"}) == (200, "[]")
        assert ask("/of/pi", where, {"Carico-Key": "of-the-test"}) == (200, "pi")

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Carico-Key": ""},
            {"Carico-Key": "of-another"},
            {"Carico-Key": "\xe9"},
            {"Authorization": "of-the-test"},
        ],
        ids=str,
    )
    def test_nothing_else_does(self, ask, key, headers):
        where = StatusConfig("0.0.0.0", tls=True, key=str(key))
        assert ask("/nodes", where, headers) == (
            403,
            "this page needs the right Carico-Key header: use `carico status` or `carico costs`\n",
        )
        assert ask("/of/pi", where, headers)[0] == 403
        assert ask("/healthz", where, headers)[0] == ask("/metrics", where, headers)[0] == 200

    def test_without_a_key_they_are_for_loopback(self, ask):
        assert ask("/nodes", StatusConfig("0.0.0.0", tls=True), {})[0] == 403
        assert ask("/nodes", StatusConfig("127.0.0.1", tls=True), {}) == (200, "[]")

    def test_a_replaced_key_replaces_the_old_one_and_a_lost_one_opens_nothing(self, serve, key):
        server = serve.configured(StatusConfig(key=str(key)), None, {"/nodes": lambda: b"[]"})
        key.write_text("new")
        for shown, status in {"of-the-test": 403, "new": 200}.items():
            assert get(server, "/nodes", headers={"Carico-Key": shown})[0] == status
        key.unlink()
        assert get(server, "/nodes", headers={"Carico-Key": ""})[0] == 403

    @pytest.mark.parametrize("content", [None, "", " \n"], ids=["missing", "empty", "blank"])
    def test_a_key_that_cannot_be_used_is_refused_at_the_start(self, serve, tmp_path, content):
        if content is not None:
            (tmp_path / "key").write_text(content)
        with pytest.raises(InvalidConfig, match=r"status\.key must name a file with a key"):
            serve.configured(StatusConfig(key=str(tmp_path / "key")), None)
