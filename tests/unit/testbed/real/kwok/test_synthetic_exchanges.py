"""Exchanges for nodes that have no agents: each reaches an aggregation server with its own certificate."""

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from carico.aggregation.metrics import AggregatorMetrics
from carico.aggregation.server import AggregationServer
from carico.clock import SystemClock
from carico.config import AggregatorConfig, TlsFiles
from carico.deployment.authority import Authority
from testbed.real.kwok.synthetic_exchanges import SyntheticExchanges
from testbed.real.kwok.synthetic_reports import node_files

NODES = ["node-0", "node-1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, datetime.now(UTC), valid_days=1)
    authority.make_ca()
    authority.make_server("aggregator", ["localhost"])
    for node in NODES:
        authority.make_node(node)
    return folder


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def server(folder, registry):
    tls = TlsFiles(*(str(folder / name) for name in ("server-aggregator.crt", "server-aggregator.key", "ca.crt")))
    config = AggregatorConfig(port=0, tls=tls, merge_every_s=0.001)
    server = AggregationServer(config, SystemClock(), AggregatorMetrics(registry))
    yield server
    server.close()


@pytest.fixture
def exchanges(folder, server):
    target, rng = f"localhost:{server.port}", np.random.default_rng(7)
    return SyntheticExchanges(target, lambda node: node_files(folder, node), NODES, SystemClock(), rng)


def count(registry, name):
    return registry.get_sample_value(f"carico_aggregator_{name}")


def test_every_node_exchanges_repeatedly(exchanges, server, registry):
    async def until_heard():
        task = asyncio.create_task(exchanges.run(0.02))
        async with asyncio.timeout(10):
            while count(registry, "exchanges_total") < 6 or count(registry, "nodes") < len(NODES):
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(until_heard())
    assert server.view is not None


def test_answers_hold_what_other_nodes_have_learned(exchanges):
    async def until_told():
        own = answer = await exchanges.exchange("node-0")
        async with asyncio.timeout(10):
            while np.allclose(answer.workload, own.workload):
                await exchanges.exchange("node-1")
                answer = await exchanges.exchange("node-0")
        for client in exchanges._clients.values():
            await client.close()

    asyncio.run(until_told())
