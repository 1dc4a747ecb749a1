"""Agent, aggregation server and extender as real processes, over mutual TLS, on this machine."""

import json
import time
import urllib.request

import numpy as np
import pytest

from carico.config import AggregatorConfig, read_config
from carico.model.subspace import Subspace
from carico.outliers import LASTING_S
from carico.rpc.clients import AggregationClient
from carico.rpc.tls import ClientTls
from tests.kits.blocking import Blocking

from .real_processes import Cluster, wait_for

pytestmark = pytest.mark.machine


@pytest.fixture
def cluster(tmp_path, pki):
    cluster = Cluster(tmp_path, pki)
    cluster.start("aggregator")
    cluster.start("extender").told("status_port")  # serves
    cluster.start_agent(checkpoint="state.json")
    yield cluster
    cluster.close()


def test_they_work_together_and_survive_each_other(cluster):
    agent = cluster.running["agent"]
    exchanged, failed = cluster.calls("aggregator", "succeeded"), cluster.calls("aggregator", "failed")
    wait_for(lambda: agent.metrics()[exchanged], agent)

    # The node's report has reached the extender: it is judged by its capacity, the other by its silence.
    assert wait_for(
        lambda: (
            (said := cluster.ask("u1", "node-a", "node-b"))
            and (said["NodeNames"] or "reserved" in str(said["FailedAndUnresolvableNodes"]))
        ),
        cluster.running["extender"],
    )
    # Decisions are written down by another thread than the one that answers.
    wait_for(lambda: cluster.journal.exists() and "\n" in cluster.journal.read_text(), cluster.running["extender"])

    # Without the aggregation server the agent goes on; when it is back, exchanges are, too.
    steps = agent.metrics()["carico_agent_steps_total"]
    assert cluster.running["aggregator"].end() == 0
    wait_for(lambda: agent.metrics()[failed], agent)
    wait_for(lambda: agent.metrics()["carico_agent_steps_total"] > steps + 1, agent)
    before = agent.metrics()[exchanged]
    cluster.start("aggregator")
    wait_for(lambda: agent.metrics()[exchanged] > before, agent)

    # All of them end as they should, and the agent leaves what it has learned.
    assert [cluster.running[name].end() for name in ("agent", "extender", "aggregator")] == [0, 0, 0]
    assert json.loads((cluster.folder / "state.json").read_text())["variant"] == "thesis-rebased"


def test_a_node_that_is_far_from_the_others_for_half_a_minute_is_shown_at_the_status_port(tmp_path, pki):
    cluster = Cluster(tmp_path, pki)
    aggregator = cluster.start("aggregator")
    status_port = aggregator.told("status_port")
    target = f"localhost:{read_config(tmp_path / 'aggregator.yaml', AggregatorConfig).port}"
    names = [f"node-{number}" for number in range(4)]
    clients = [Blocking(AggregationClient(target, ClientTls(pki.node(name)), name, 10.0)) for name in names]
    idle, busy = (Subspace.from_batch(np.tile([[usage], [0.2]], 10)) for usage in (0.0, 0.9))
    try:
        end = time.monotonic() + LASTING_S + 15
        while time.monotonic() < end:
            for number, client in enumerate(clients):
                client.exchange(busy if number else idle)
            for _ in range(35):
                clients[1].exchange(busy)
            time.sleep(1.0)
        with urllib.request.urlopen(f"http://127.0.0.1:{status_port}/outliers") as answer:
            outliers = json.load(answer)["outliers"]
        assert {(each["node"], each["about"]) for each in outliers} == {
            ("node-0", "usage of cpu"),
            ("node-1", "exchanges per second"),
        }
        assert aggregator.metrics()["carico_aggregator_outliers"] == 2
        assert "node-1: exchanges per second: " in aggregator.logged()
    finally:
        for client in clients:
            client.__exit__()
        cluster.close()
