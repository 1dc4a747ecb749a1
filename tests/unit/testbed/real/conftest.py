"""A fake cluster over HTTP and a client of it."""

import kubernetes.client
import pytest

from carico.kube.client import KubeClient
from testbed.cluster_options import ClusterOptions
from testbed.real.api import ClusterApi
from testbed.real.kwok.platform import KwokPlatform
from testbed.real.lifecycle import MadeCluster
from testbed.real.provider import RealProvider
from testbed.real.registry import Registry
from tests.kits.fake_cluster import FakeCluster
from tests.kits.fake_maker import FakeMaker


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


@pytest.fixture
def said():
    return []


@pytest.fixture
def maker():
    return FakeMaker()


@pytest.fixture
def provider(api, maker, tmp_path, said, monkeypatch):
    monkeypatch.setattr("testbed.real.run.SLOW_LOOK_S", 0.05)
    monkeypatch.setattr("testbed.real.waiting.POLL_S", 0.02)
    options = ClusterOptions("run-1", diagnostics=tmp_path / "diagnostics", say=said.append)
    life = MadeCluster(maker, options, Registry(tmp_path / "clusters"), lambda kubeconfig: api)
    provider = RealProvider(life, KwokPlatform(), options)
    yield provider
    provider.close()
