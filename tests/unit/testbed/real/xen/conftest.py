"""A fake Xen host over real SSH, a fake cluster that its guests join, and descriptions of them."""

import json
from types import SimpleNamespace

import kubernetes.client
import pytest
import yaml

from carico.kube.client import KubeClient
from testbed.real.api import ClusterApi
from testbed.real.xen import bootstrap, provisioner, ssh
from testbed.real.xen.maker import XenMaker
from tests.kits.fake_dom0 import ROOT, FakeDom0, new_key
from tests.kits.fake_machine import ServerLoop

IMAGE = {
    "kubernetes": "v1.34.4",
    "kernel": "6.1.0-56-amd64",
    "disk_bytes": 8 << 30,
    "digests": {"root.img": "0123456789abcdef0123"},
    "images": ["carico.local/carico:1", "carico.local/workloads:2", "registry.k8s.io/pause:3.10.1"],
}


@pytest.fixture(scope="module")  # no longer: tests elsewhere count the process's open files
def servers():
    servers = ServerLoop()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def key():
    """The key that lets the testbed into dom0."""
    return new_key()


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr(ssh, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(provisioner, "POLL_S", 0.01)
    monkeypatch.setattr(bootstrap, "POLL_S", 0.01)


@pytest.fixture
def dom0(servers, key, server):
    dom0 = FakeDom0(servers, key.export_public_key().decode(), server)
    yield dom0
    dom0.close()


@pytest.fixture
def described(tmp_path, key, dom0):
    """A function that writes a description of guests on the fake host, and returns its file."""
    place = tmp_path / "described"
    place.mkdir()
    (place / "known_hosts").write_text(f"[127.0.0.1]:{dom0.port} {dom0.public_host_key}\n")
    (place / "key").write_text(key.export_private_key().decode())
    (place / "key").chmod(0o600)
    (place / "guest.json").write_text(json.dumps(IMAGE))

    def write(count=2, guests=(), **fields):
        document = {
            "host": {
                "driver": "xl",
                "address": "127.0.0.1",
                "port": dom0.port,
                "known_hosts": "known_hosts",
                "key": "key",
            },
            "guests": {
                "count": count,
                "image": ".",
                "root": ROOT,
                "kernel": "/boot/vmlinux",
                "ramdisk": "/boot/initrd",
                "addresses": [f"127.0.0.{number}" for number in range(2, 2 + count)],
                "gateway": "127.0.0.1",
                **dict(guests),
            },
            **fields,
        }
        (place / "guests.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        return place / "guests.yaml"

    return write


@pytest.fixture
def connect(server):
    """Connects to the fake cluster, whatever the kubeconfig says."""
    return lambda kubeconfig: ClusterApi(
        KubeClient(kubernetes.client.Configuration(host=server.url), connect_s=2, silence_s=2)
    )


@pytest.fixture
def made(described, connect, dom0):
    """A function that returns a maker of guests on the fake host, and its messages."""

    def make(*guests, environment=(), **fields):
        said = []
        file = described(*guests, **fields)
        maker = XenMaker(file, said.append, dict(environment), connect, guest_port=dom0.port)
        return SimpleNamespace(maker=maker, said=said, connect=connect)

    return make
