"""A fake API server and a client of it."""

import kubernetes.client
import pytest

from carico.kube.client import KubeClient
from tests.kits.fake_api_server import FakeApiServer


@pytest.fixture
def server():
    server = FakeApiServer()
    yield server
    server.close()


@pytest.fixture
def silence_s():
    """After so long without a word a stream has ended, for the client."""
    return 5.0


@pytest.fixture
def client(server, silence_s):
    client = KubeClient(kubernetes.client.Configuration(host=server.url), connect_s=2, silence_s=silence_s)
    yield client
    client.close()
