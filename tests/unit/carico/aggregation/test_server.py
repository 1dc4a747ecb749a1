"""The aggregation server over real connections."""

import socket
import time
from contextlib import ExitStack, contextmanager

import grpc
import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from carico.aggregation.metrics import AggregatorMetrics
from carico.aggregation.server import AggregationServer
from carico.config import AggregatorConfig
from carico.errors import InvalidConfig, Refused, Unreachable
from carico.model.aggregator import ReplicaView
from carico.model.subspace import Subspace
from carico.rpc import aggregation_pb2
from carico.rpc.clients import AggregationClient, ReplicaClient
from carico.rpc.loop import LoopThread
from carico.rpc.messages import MAX_MESSAGE_BYTES, write_exchange
from carico.rpc.tls import ClientTls, PemFiles
from carico.testing import ManualClock
from tests.kits.blocking import Blocking

DEADLINE_S = 10.0


def subspace(*usage):
    return Subspace.from_batch(np.tile(np.reshape(usage, (-1, 1)), 10))


def gram(view):
    return view.columns @ view.columns.T


@pytest.fixture
def serve(pki):
    with ExitStack() as stack:

        def start(clock=None, rng=None, period_s=0.0, **config):
            quick = {"port": 0, "tls": pki.server("aggregator"), "merge_every_s": 0.001, "reconcile_every_s": 0.02}
            registry = CollectorRegistry()
            server = AggregationServer(
                AggregatorConfig(**quick | config), clock or ManualClock(), AggregatorMetrics(registry), rng, period_s
            )
            server.registry = registry
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def node(pki):
    with ExitStack() as stack:

        def connect(server, name, shown_as=None):
            credentials = ClientTls(pki.node(shown_as or name))
            return stack.enter_context(
                Blocking(AggregationClient(f"localhost:{server.port}", credentials, name, DEADLINE_S))
            )

        yield connect


def exchange_until(condition, *calls):
    """Exchange again and again until the last answer is as wanted; what never is ends with the test's time-out."""
    while not condition([client.exchange(own) for client, own in calls][-1]):
        pass


@contextmanager
def exchanging(server, files, write=bytes, read=bytes):
    """Yield the answers to any messages, as `write` and `read` turn them into bytes and back, from a caller that shows
    the certificate of `files`."""
    pem = PemFiles(files)
    credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)
    with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
        method = channel.stream_stream("/carico.v1.Aggregation/ExchangeStream", write, read)
        yield lambda *messages: method(iter(messages), timeout=DEADLINE_S)


def metric(server, name, **labels):
    return server.registry.get_sample_value(f"carico_aggregator_{name}", labels)


BUSY, IDLE = subspace(0.9, 0.2), subspace(0.1, 0.1)
HALF = (gram(BUSY) + gram(IDLE)) / 2
"""What a cluster of as many busy as idle nodes is."""


def is_about(wanted, rtol):
    return lambda view: np.allclose(gram(view), wanted, rtol=rtol, atol=0)


class TestExchange:
    def test_the_first_node_gets_its_own_back(self, serve, node):
        np.testing.assert_allclose(gram(node(serve(merge_every_s=60), "node-a").exchange(BUSY)), gram(BUSY), atol=1e-12)

    def test_then_every_node_is_told_the_view_of_all(self, serve, node):
        server = serve()
        exchange_until(is_about(HALF, rtol=0.4), (node(server, "node-a"), BUSY), (node(server, "node-b"), IDLE))
        assert metric(server, "nodes") == 2
        assert metric(server, "exchanges_total") >= metric(server, "merged_total") >= 2

    def test_what_the_compiled_protocol_says_is_understood(self, serve, pki):
        """Another program, made from the .proto file alone."""
        own = aggregation_pb2.Subspace(resources=2, basis=[1, 0, 0, 1], singular_values=[2, 1])
        request = aggregation_pb2.ExchangeRequest(node="node-a", subspace=own)
        write, read = aggregation_pb2.ExchangeRequest.SerializeToString, aggregation_pb2.ExchangeReply.FromString
        with exchanging(serve(), pki.node("node-a"), write, read) as exchange:
            first, *others = exchange(request, request, request)
        assert first.subspace == own
        assert [len(reply.subspace.singular_values) for reply in others] == [2, 2]

    def test_a_node_not_heard_of_for_long_counts_no_more(self, serve, node):
        clock = ManualClock()
        server = serve(clock, node_timeout_s=10.0)
        a, b = node(server, "node-a"), node(server, "node-b")
        b.exchange(IDLE)
        clock.advance(9.0)
        a.exchange(BUSY)
        clock.advance(1.0)
        exchange_until(is_about(gram(BUSY), rtol=1e-9), (a, BUSY))
        assert metric(server, "nodes") == 1

    def test_a_node_counts_once_a_period_however_often_it_exchanges(self, serve, node, until):
        clock = ManualClock()
        server = serve(clock, period_s=0.125)
        client = node(server, "node-a")
        for merged in range(1, 4):
            for _ in range(100):
                client.exchange(BUSY)
            until(lambda merged=merged: metric(server, "merged_total") == merged)
            clock.advance(0.125)
        until(lambda: metric(server, "merged_total") == 4)  # the last of all, which nothing follows

    def test_no_more_nodes_than_are_allowed(self, serve, node):
        server = serve(max_nodes=1)
        a = node(server, "node-a")
        a.exchange(BUSY)
        with pytest.raises(Refused, match="1 nodes are known already; raise `max_nodes`"):
            node(server, "node-b").exchange(BUSY)
        a.exchange(BUSY)


def test_who_is_far_from_the_others_is_counted_and_named(serve, node, caplog, until):
    clock = ManualClock()
    server = serve(clock)
    nodes = {name: node(server, name) for name in ("node-a", "node-b", "node-c", "node-d")}
    for _ in range(10):
        for name, client in nodes.items():
            client.exchange(subspace(0.0, 1.0) if name == "node-d" else BUSY)
        clock.advance(5.0)
        looked = server._outliers
        nodes["node-a"].exchange(BUSY)
        until(lambda looked=looked: looked._looked_at == clock.now())
    until(lambda: metric(server, "outliers") == 2)
    told = [(each.node, each.about, round(each.says, 2), round(each.others, 2)) for each in server.outliers()]
    assert told == [("node-d", "usage of cpu", 0.0, 0.9), ("node-d", "usage of memory", 1.0, 0.2)]
    assert "a node is far from the others: node-d: usage of memory: 1, most nodes say 0.2, for" in caplog.text


class TestHostileInput:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"\xff\xff\xff", "3 bytes cannot be read as ExchangeRequest"),
            (b"", "a node's name"),
            (write_exchange("node-a", subspace(0.1, 0.2, 0.3)), "subspaces of 2 resources are exchanged here"),
            (bytes(MAX_MESSAGE_BYTES + 1), "a message has at most 65536 bytes, got 65537"),
        ],
    )
    def test_is_refused_with_the_reason_counted_and_changes_nothing(self, serve, pki, data, message):
        server = serve()
        with exchanging(server, pki.node("node-a")) as exchange, pytest.raises(grpc.RpcError) as caught:
            next(exchange(data))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert message in caught.value.details()
        assert metric(server, "refused_total", why="invalid_input") == 1
        assert (metric(server, "exchanges_total"), server.view) == (0, None)

    def test_a_message_that_is_far_too_long_is_not_read(self, serve, pki):
        with exchanging(serve(), pki.node("node-a")) as exchange, pytest.raises(grpc.RpcError) as caught:
            next(exchange(bytes(1_000_000)))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_ends_the_stream_that_it_comes_by_and_no_other(self, serve, pki, node):
        server = serve()
        good = write_exchange("node-a", BUSY)
        with exchanging(server, pki.node("node-a")) as exchange:
            replies = exchange(good, b"\xff", good)
            assert next(replies)
            with pytest.raises(grpc.RpcError) as caught:
                next(replies)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        node(server, "node-a").exchange(BUSY)

    def test_those_who_connect_and_say_nothing_block_nobody(self, serve, node):
        server = serve()
        with ExitStack() as silent:
            for _ in range(50):
                silent.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            node(server, "node-a").exchange(BUSY)


class TestWhoMayCall:
    def test_a_node_speaks_for_itself_only(self, serve, node):
        server = serve()
        with pytest.raises(Refused, match="URI carico:node:node-a is needed, got carico:node:node-b"):
            node(server, "node-a", shown_as="node-b").exchange(BUSY)
        assert metric(server, "refused_total", why="not_allowed") == 1
        assert server.view is None

    @pytest.mark.parametrize("who", ["node", "extender"])
    def test_only_an_aggregation_server_reconciles(self, serve, pki, who):
        server = serve()
        files = pki.node("node-a") if who == "node" else pki.server("extender")
        with (
            Blocking(ReplicaClient(f"localhost:{server.port}", ClientTls(files), DEADLINE_S)) as client,
            pytest.raises(Refused, match="URI carico:server:aggregator is needed"),
        ):
            client.reconcile(ReplicaView("other", 1, BUSY), 2)

    def test_a_certificate_of_another_ca_is_none(self, serve, other_pki, pki):
        server = serve()
        stranger = msgspec.structs.replace(other_pki.node("node-a"), ca=pki.node("node-a").ca)
        client = Blocking(AggregationClient(f"localhost:{server.port}", ClientTls(stranger), "node-a", DEADLINE_S))
        with client, pytest.raises(Unreachable, match="UNAVAILABLE"):
            client.exchange(BUSY)

    def test_plain_text_gets_no_answer(self, serve):
        server = serve()
        client = Blocking(AggregationClient(f"localhost:{server.port}", None, "node-a", DEADLINE_S))
        with client, pytest.raises(Unreachable, match="UNAVAILABLE"):
            client.exchange(BUSY)

    @pytest.mark.parametrize(
        ("host", "target"),
        [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("::1", "[::1]"), ("[::1]", "[::1]")],
    )
    def test_plain_text_on_loopback_if_asked_for(self, serve, host, target):
        server = serve(tls=None, insecure_loopback=True, host=host)
        with Blocking(AggregationClient(f"{target}:{server.port}", None, "node-a", DEADLINE_S)) as client:
            client.exchange(BUSY)

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"tls": None}, "nothing is encrypted"),
            ({"tls": None, "insecure_loopback": True, "host": "0.0.0.0"}, "is for 127.0.0.1, ::1 or localhost"),
            ({"tls": None, "insecure_loopback": True, "peers": ("example.com:1",)}, "is for 127.0.0.1"),
        ],
    )
    def test_plain_text_nowhere_else(self, serve, config, message):
        with pytest.raises(InvalidConfig, match=message):
            serve(**config)


class TestReplicas:
    def test_two_that_hear_half_the_nodes_each_tell_what_one_of_all_does(self, serve, node):
        """One direction of calls is enough for both to know."""
        a = serve(rng=np.random.default_rng(1))
        b = serve(rng=np.random.default_rng(2), peers=(f"localhost:{a.port}",))
        alone = serve()
        owns = {"node-a": BUSY, "node-b": subspace(0.7, 0.2), "node-c": IDLE, "node-d": subspace(0.1, 0.3)}
        homes = {"node-a": a, "node-b": a, "node-c": b, "node-d": b}
        at_home = [(node(homes[name], name), own) for name, own in owns.items()]
        at_one = [(node(alone, name), own) for name, own in owns.items()]
        mean = sum(map(gram, owns.values())) / 4
        # Who was merged last weighs most, among four nodes as among two: the views keep moving about the mean.
        for calls in (at_one, at_home, at_home[::-1]):
            exchange_until(is_about(mean, rtol=0.35), *calls)
        # Once nobody calls any more both know the same of each other.
        end = time.monotonic() + DEADLINE_S
        while not np.allclose(gram(a.view), gram(b.view), rtol=1e-9):
            assert time.monotonic() < end, (a.view, b.view)
            time.sleep(0.01)
        assert (metric(a, "nodes"), metric(b, "nodes"), metric(alone, "nodes")) == (2, 2, 4)

    def test_two_of_one_node_each_tell_exactly_the_average(self, serve, node):
        a = serve(rng=np.random.default_rng(1))
        b = serve(rng=np.random.default_rng(2), peers=(f"localhost:{a.port}",))
        at_a, at_b = (node(a, "node-a"), BUSY), (node(b, "node-b"), IDLE)
        exchange_until(is_about(HALF, rtol=1e-9), at_b, at_a)
        exchange_until(is_about(HALF, rtol=1e-9), at_a, at_b)

    def test_one_that_was_just_started_answers_with_what_the_others_know(self, serve, node):
        a = serve()
        node(a, "node-a").exchange(BUSY)
        b = serve(peers=(f"localhost:{a.port}",))
        exchange_until(is_about(gram(BUSY), rtol=1e-9), (node(b, "node-b"), BUSY))

    def test_a_silent_one_counts_no_more(self, serve, node, pki):
        clock = ManualClock()
        server = serve(clock, reconcile_every_s=1.0)
        at_server = (node(server, "node-a"), BUSY)
        files = ClientTls(pki.server("aggregator"))
        with Blocking(ReplicaClient(f"localhost:{server.port}", files, DEADLINE_S)) as other:
            answer = other.reconcile(ReplicaView("other", 1, IDLE), 2)
        assert answer.nodes == 0
        exchange_until(is_about(HALF, rtol=1e-9), at_server)
        clock.advance(5.0)
        exchange_until(is_about(gram(BUSY), rtol=1e-9), at_server)

    def test_one_that_was_restarted_counts_once(self, serve, node):
        """A restart has another name; what it said under the old one would count for five rounds."""
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        server = serve(ManualClock(), peers=(f"localhost:{port}",))  # whose clock stands still: nothing times out
        for own, wanted in ((IDLE, HALF), (BUSY, gram(BUSY))):
            restarted = serve(port=port)
            calls = (node(restarted, "node-b"), own), (node(server, "node-a"), BUSY)
            exchange_until(is_about(wanted, rtol=1e-9), *calls)
            restarted.close()
        assert metric(server, "replicas") == 1

    def test_peers_that_cannot_be_reached_are_counted_and_hold_nothing_up(self, serve, node):
        server = serve(peers=("localhost:1",))
        client = node(server, "node-a")
        exchange_until(lambda _: metric(server, "reconcile_failures_total") >= 2, (client, BUSY))

    def test_calling_oneself_counts_no_node_twice(self, serve, node):
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        server = serve(port=port, peers=(f"localhost:{port}",))
        client = node(server, "node-a")
        for _ in range(50):
            client.exchange(BUSY)
        assert metric(server, "replicas") == 0


class TestLife:
    def test_ready_until_it_is_closed(self, serve):
        server = serve()
        assert (server.healthy(), server.ready()) == ("", "")
        server.close()
        server.close()
        assert server.ready() == "not serving"

    def test_unhealthy_once_the_thread_that_answers_has_ended(self, serve, monkeypatch):
        server = serve()
        with monkeypatch.context() as ended:
            ended.setattr(LoopThread, "is_alive", lambda _: False)
            assert server.healthy() == "the thread that answers calls has ended"

    def test_a_port_that_is_taken(self, serve):
        with pytest.raises(InvalidConfig, match="is the port taken"):
            serve(port=serve().port)
