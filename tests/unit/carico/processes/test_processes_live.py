"""Agent, aggregation server and extender as real processes, over mutual TLS, on this machine."""

import json

import pytest

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
