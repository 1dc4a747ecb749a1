"""What a node calls: servers that are there, that are not, and that come back."""

import random
import socket
from functools import partial

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from carico.aggregation.metrics import AggregatorMetrics
from carico.aggregation.server import AggregationServer
from carico.config import AggregatorConfig
from carico.errors import InvalidConfig, InvalidInput, RpcError, Unreachable
from carico.model.subspace import Subspace
from carico.rpc.background import BackgroundCalls, Backoff
from carico.rpc.clients import AggregationClient, ReportClient
from carico.rpc.loop import LoopThread
from carico.rpc.tls import ClientTls
from carico.scheduling.report import CapacityReport
from carico.testing import ManualClock
from tests.kits.blocking import Blocking

OWN = Subspace.from_batch(np.full((2, 10), 0.5))
DEADLINE_S = 10.0


@pytest.fixture
def serve(pki):
    servers = []

    def start(port=0):
        config = AggregatorConfig(port=port, tls=pki.server("aggregator"))
        servers.append(AggregationServer(config, ManualClock(), AggregatorMetrics(CollectorRegistry())))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_a_server_that_goes_and_comes_back(serve, pki):
    server = serve()
    port = server.port
    with Blocking(
        AggregationClient(f"localhost:{port}", ClientTls(pki.node("node-a")), "node-a", DEADLINE_S)
    ) as client:
        client.exchange(OWN)
        server.close()
        with pytest.raises(Unreachable, match=f"localhost:{port}.*UNAVAILABLE"):
            client.exchange(OWN)
        serve(port)
        # It may not listen yet.
        for _ in range(100_000):
            try:
                client.exchange(OWN)
                break
            except Unreachable:
                continue
        else:
            pytest.fail("never connected again")


def test_a_loop_that_must_not_wait_outlives_its_server(serve, pki, until, caplog):
    server = serve()
    port = server.port
    client = AggregationClient(f"localhost:{port}", ClientTls(pki.node("node-a")), "node-a", DEADLINE_S)
    with LoopThread("test") as loop:
        with BackgroundCalls(loop, "exchange", client.exchange, random.Random(1), Backoff(0.01, 0.01)) as calls:
            calls.submit(OWN)
            until(lambda: calls.succeeded)
            server.close()
            calls.submit(OWN)
            until(lambda: calls.failed)
            assert calls.latest() is not None, "the last view stays in use"
            # UNAVAILABLE, or CANCELLED if the call was under way.
            until(lambda: f"localhost:{port}" in caplog.text)
            serve(port)
            before = calls.succeeded
            until(lambda: calls.submit(OWN) or calls.succeeded > before)
        loop.run(client.close())


def test_a_server_that_says_nothing_costs_no_more_than_the_deadline(pki):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        credentials = ClientTls(pki.node("node-a"))
        target = f"localhost:{mute.getsockname()[1]}"
        with (
            Blocking(AggregationClient(target, credentials, "node-a", 0.05)) as client,
            pytest.raises(Unreachable, match="DEADLINE_EXCEEDED"),
        ):
            client.exchange(OWN)


def test_a_connection_whose_other_end_has_vanished_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        target = f"127.0.0.1:{mute.getsockname()[1]}"
        with Blocking(ReportClient(target, None, 0.01)) as client:
            for sequence in range(6):
                with pytest.raises(Unreachable, match="DEADLINE_EXCEEDED"):
                    client.report(CapacityReport("node-a", 1.0, 1, 1.0, sequence))
            mute.settimeout(DEADLINE_S)
            # Five were asked over the first connection, one over the second.
            for _ in range(2):
                connection, _ = mute.accept()
                with connection:
                    assert connection.recv(1)


def test_a_server_whose_certificate_is_for_another_host(pki):
    config = AggregatorConfig(port=0, tls=pki.server("elsewhere", "elsewhere.example"))
    server = AggregationServer(config, ManualClock(), AggregatorMetrics(CollectorRegistry()))
    credentials = ClientTls(pki.node("node-a"))
    with (
        Blocking(AggregationClient(f"localhost:{server.port}", credentials, "node-a", DEADLINE_S)) as client,
        pytest.raises(RpcError),
    ):
        client.exchange(OWN)
    server.close()


def test_a_node_cannot_pass_for_a_server(pki):
    """Its certificate is good for calling only."""
    server = AggregationServer(
        AggregatorConfig(port=0, tls=pki.node("localhost")), ManualClock(), AggregatorMetrics(CollectorRegistry())
    )
    credentials = ClientTls(pki.node("node-a"))
    with (
        Blocking(AggregationClient(f"localhost:{server.port}", credentials, "node-a", DEADLINE_S)) as client,
        pytest.raises(Unreachable),
    ):
        client.exchange(OWN)
    server.close()


@pytest.mark.parametrize("kind", [partial(AggregationClient, node="node-a"), ReportClient])
class TestArguments:
    def test_plain_text_on_loopback_only(self, kind):
        kind("localhost:1", None)
        with pytest.raises(InvalidConfig, match=r"is for 127\.0\.0\.1"):
            kind("example.com:1", None)

    @pytest.mark.parametrize("deadline_s", [0.0, -1.0, float("inf"), float("nan")])
    def test_deadline(self, kind, deadline_s):
        with pytest.raises(InvalidConfig, match="deadline_s must be"):
            kind("localhost:1", None, deadline_s=deadline_s)


def test_a_nodes_name():
    with pytest.raises(InvalidInput, match="DNS-1123"):
        AggregationClient("localhost:1", None, "Node A")
