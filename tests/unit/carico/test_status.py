"""/healthz, /readyz and /metrics, over HTTP."""

import http.client
import socket
from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry, Counter

from carico.status import StatusServer


@pytest.fixture
def serve():
    servers = []

    def start(ready="", healthy="", host="127.0.0.1"):
        registry = CollectorRegistry()
        Counter("carico_samples", "samples taken", registry=registry).inc(3)
        servers.append(StatusServer(registry, lambda: healthy, lambda: ready, host))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def get(server, path, method="GET", host="127.0.0.1"):
    with closing(http.client.HTTPConnection(host, server.port, timeout=5)) as connection:
        connection.request(method, path)
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


def test_a_client_that_says_nothing_blocks_nobody(serve):
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port)):
        assert get(server, "/healthz")[0] == 200


def test_once_closed_nothing_is_served(serve):
    server = serve()
    port = server.port
    server.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=1)
