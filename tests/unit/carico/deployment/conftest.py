"""A fake API server with two nodes, and a client of it."""

import kubernetes.client
import pytest

from carico.kube.client import KubeClient
from carico.kube.objects import KubeObjects
from tests.kits.fake_api_server import FakeApiServer


@pytest.fixture
def cluster():
    cluster = FakeApiServer()
    for node in ("node-a", "node-b"):
        cluster.put(f"/api/v1/nodes/{node}")
    yield cluster
    cluster.close()


@pytest.fixture
def kube(cluster):
    client = KubeClient(kubernetes.client.Configuration(host=cluster.url), connect_s=2, silence_s=5.0)
    yield KubeObjects(client)
    client.close()
