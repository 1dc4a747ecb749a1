"""A fake cluster over HTTP and a client of it."""

import kubernetes.client
import pytest

from carico.kube.client import KubeClient
from testbed.real.api import ClusterApi
from tests.kits.fake_cluster import FakeCluster


@pytest.fixture
def server():
    server = FakeCluster()
    yield server
    server.close()


@pytest.fixture
def api(server):
    api = ClusterApi(KubeClient(kubernetes.client.Configuration(host=server.url), connect_s=2, silence_s=2))
    yield api
    api.close()
