"""A fake API server with requests, and a client of it."""

import kubernetes.client
import pytest

from carico.kube.client import KubeClient
from tests.kits.fake_api_server import FakeApiServer
from tests.kits.signing_requests import AGENT, NODE_OF_TOKEN

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture
def cluster():
    cluster = FakeApiServer()
    cluster.user = {"username": AGENT, "extra": {NODE_OF_TOKEN: ["node-a"]}}
    yield cluster
    cluster.close()


@pytest.fixture
def kube(cluster):
    client = KubeClient(kubernetes.client.Configuration(host=cluster.url), connect_s=2, silence_s=5.0)
    yield client
    client.close()


@pytest.fixture
def requests(cluster):
    """The requests that the server has, by name."""
    return lambda: {path.rpartition("/")[2]: thing for path, thing in cluster.objects.items() if REQUESTS in path}
