"""Nodes may have a CA of their own: whatever it has signed counts as a node's certificate and as nothing else's.

Somebody who has stolen that CA's key, or tricks its signer, can have it sign any name. So these tests do.
"""

import http.client
import ssl
from contextlib import ExitStack, closing

import msgspec
import numpy as np
import pytest
import yaml
from prometheus_client import CollectorRegistry

from carico.aggregation.metrics import AggregatorMetrics
from carico.aggregation.server import AggregationServer
from carico.config import AggregatorConfig, read_config
from carico.deployment.authority import NODES_CA_NAME
from carico.errors import InvalidConfig, Refused, RpcError, Unreachable
from carico.extender.report_server import CapacityServer
from carico.extender.server import serve_extender
from carico.http.tls import ServerTls
from carico.model.aggregator import ReplicaView
from carico.model.subspace import Subspace
from carico.rpc.clients import AggregationClient, ReplicaClient, ReportClient
from carico.rpc.tls import ClientTls, PemFiles
from carico.scheduling.report import CapacityReport
from carico.testing import ManualClock
from tests.kits.blocking import Blocking
from tests.kits.certificates import Certificates

DEADLINE_S = 10.0
OWN = Subspace.from_batch(np.tile([[0.9], [0.2]], 10))


@pytest.fixture(scope="module")
def nodes_pki(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("nodes-pki"), NODES_CA_NAME)


@pytest.fixture
def of_servers(pki, nodes_pki):
    """Return the files of a server that trusts both CAs where nodes call."""
    return lambda name: msgspec.structs.replace(pki.server(name), nodes_ca=str(nodes_pki.ca))


@pytest.fixture
def of_nodes(pki, nodes_pki):
    """Return a client's files with any certificate of the nodes' CA; servers are to be of the other CA."""

    def run(name, server=False):
        files = nodes_pki.server(name) if server else nodes_pki.node(name)
        return msgspec.structs.replace(files, ca=str(pki.ca), nodes_ca=str(nodes_pki.ca))

    return run


@pytest.fixture
def scheduler(of_servers):
    reported = []
    server = CapacityServer(lambda report: reported.append(report.node) or {}, of_servers("extender"), "localhost", 0)
    with closing(server):
        yield server.port, reported


@pytest.fixture
def aggregator(of_servers):
    config = AggregatorConfig(port=0, replica_port=0, tls=of_servers("aggregator"))
    with closing(AggregationServer(config, ManualClock(), AggregatorMetrics(CollectorRegistry()))) as server:
        yield server


def report(port, files, node="node-a", sequence=1):
    with Blocking(ReportClient(f"localhost:{port}", ClientTls(files), DEADLINE_S)) as client:
        client.report(CapacityReport(node, 1.0, 1, float(sequence), sequence))


def reconcile(port, files):
    with Blocking(ReplicaClient(f"localhost:{port}", ClientTls(files), DEADLINE_S)) as client:
        return client.reconcile(ReplicaView("other", 1, OWN), 2)


class TestReports:
    def test_a_node_of_either_ca_reports_for_itself(self, scheduler, of_nodes, pki):
        port, reported = scheduler
        report(port, of_nodes("node-a"))
        report(port, pki.node("node-b"), "node-b")
        assert reported == ["node-a", "node-b"]
        with pytest.raises(Refused, match="URI carico:node:node-a is needed, got carico:node:node-b"):
            report(port, of_nodes("node-b"))

    def test_a_server_of_either_ca_reports_for_nobody(self, scheduler, of_nodes, pki):
        port, reported = scheduler
        for files in (of_nodes("aggregator", server=True), pki.server("kube-scheduler")):
            with pytest.raises(Refused, match="URI carico:node:node-a is needed"):
                report(port, files)
        assert reported == []

    def test_a_third_cas_certificate_is_none(self, scheduler, other_pki, pki):
        files = msgspec.structs.replace(other_pki.node("node-a"), ca=str(pki.ca))
        with pytest.raises(Unreachable):
            report(scheduler[0], files)


class TestAggregation:
    def test_a_node_exchanges_and_a_server_of_the_other_ca_reconciles(self, aggregator, of_nodes, pki):
        target = f"localhost:{aggregator.port}"
        with Blocking(AggregationClient(target, ClientTls(of_nodes("node-a")), "node-a", DEADLINE_S)) as client:
            client.exchange(OWN)
        assert reconcile(aggregator.replica_port, pki.server("aggregator")).replica != "other"

    @pytest.mark.parametrize("port", ["port", "replica_port"])
    def test_no_certificate_of_the_nodes_ca_reconciles_whatever_it_says(self, aggregator, of_nodes, port):
        for files in (of_nodes("aggregator", server=True), of_nodes("node-a")):
            with pytest.raises(RpcError):
                reconcile(getattr(aggregator, port), files)
        assert aggregator._replicas == {}

    def test_replicas_are_not_served_where_nodes_call(self, aggregator, pki):
        with pytest.raises(RpcError, match="UNIMPLEMENTED"):
            reconcile(aggregator.port, pki.server("aggregator"))

    def test_a_configuration_that_would_do_so_is_refused(self, tmp_path, of_servers):
        files = of_servers("aggregator")
        text = yaml.safe_dump({"tls": msgspec.structs.asdict(files)})
        (tmp_path / "a.yaml").write_text(text)
        with pytest.raises(InvalidConfig, match="give a `replica_port`"):
            read_config(tmp_path / "a.yaml", AggregatorConfig)
        (tmp_path / "a.yaml").write_text(f"{text}\nreplica_port: 50053\n")
        assert read_config(tmp_path / "a.yaml", AggregatorConfig).replica_port == 50053


@pytest.mark.parametrize("shown", ["node", "server"])
def test_no_certificate_of_the_nodes_ca_asks_the_extender(of_servers, nodes_pki, shown):
    """Not even where every certificate of the CA may ask."""
    server = serve_extender(None, None, host="localhost", port=0, tls=ServerTls(of_servers("extender")))
    own = nodes_pki.node("node-a") if shown == "node" else nodes_pki.server("kube-scheduler")
    context = ssl.create_default_context(cafile=of_servers("extender").ca)
    context.load_cert_chain(own.certificate, own.key)
    with (
        closing(server),
        closing(http.client.HTTPSConnection("localhost", server.port, context=context)) as client,
        pytest.raises(OSError, match=r"."),
    ):
        ask(client)


def ask(client):
    client.request("POST", "/filter", b"{}")
    client.getresponse()


def test_no_certificate_of_the_nodes_ca_makes_a_server_for_agents(nodes_pki, of_nodes):
    """Somebody between an agent and its schedulers shows a certificate with the scheduler's host names."""
    with ExitStack() as opened:
        server = CapacityServer(lambda report: {}, nodes_pki.server("extender"), "localhost", 0)
        opened.callback(server.close)
        with pytest.raises(Unreachable, match="check `tls` on both sides"):
            report(server.port, of_nodes("node-a"))


def test_cas_of_the_same_name_are_refused(of_nodes, other_pki):
    """TLS would take one of them for the other, and refuse what the latter has signed."""
    with pytest.raises(InvalidConfig, match=r"CAs of the same name, commonName=CARICO CA: .*give one another name"):
        PemFiles(msgspec.structs.replace(of_nodes("node-a"), nodes_ca=str(other_pki.ca)))


def test_a_file_that_is_no_ca_is_refused(of_nodes, tmp_path):
    (tmp_path / "rubbish.crt").write_text("rubbish")
    for file, message in (("rubbish.crt", "rubbish.crt must hold the certificate of a CA"), ("none", "cannot read")):
        with pytest.raises(InvalidConfig, match=message):
            PemFiles(msgspec.structs.replace(of_nodes("node-a"), nodes_ca=str(tmp_path / file)))
