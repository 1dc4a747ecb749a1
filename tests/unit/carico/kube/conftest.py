"""A fake API server and a client of it."""

import kubernetes.client
import pytest

from carico.kube.client import KubeClient

from .fake_api_server import FakeApiServer


@pytest.fixture
def server():
    server = FakeApiServer()
    yield server
    server.close()


@pytest.fixture
def client(server):
    client = KubeClient(kubernetes.client.Configuration(host=server.url), connect_s=2, silence_s=1.0)
    yield client
    client.close()
