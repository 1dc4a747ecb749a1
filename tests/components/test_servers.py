"""CARICO's servers in their image: started as on a cluster, called over mutual TLS, ended, and wrongly configured."""

import asyncio
import http.client
import json
import shutil
import socket
import ssl
import time
from contextlib import closing

import msgspec
import numpy as np
import pytest

from carico.errors import Unreachable
from carico.model.subspace import Subspace
from carico.rpc.clients import AggregationClient, ReportClient
from carico.rpc.tls import ClientTls
from carico.scheduling.report import CapacityReport

from .conftest import FOLDER, USER

CALLED = {"aggregator": 50051, "extender": 50052}
"""The ports that nodes call."""
ASKED = 8443
STATUS = {"host": "0.0.0.0", "port": 9443, "tls": True}
CONFIGURATIONS = {
    "aggregator": {"host": "0.0.0.0", "status": STATUS},
    "extender": {"host": "0.0.0.0", "status": STATUS, "kubernetes": None},
}
END_S = 10.0
"""The grace period of CARICO's pods."""
CALL_S = 10.0


@pytest.fixture
def authority(pki):
    return pki()


@pytest.fixture
def serve(run, authority, host, tmp_path):
    """A function that starts a server with files that only its user can read."""

    def start(server, **changes):
        folder = tmp_path / server
        (folder / "tls").mkdir(parents=True)
        given = authority.server(server, host)
        names = {"certificate": given.certificate, "key": given.key, "ca": given.ca}
        for name, source in names.items():
            shutil.copyfile(source, folder / "tls" / name)
        tls = {name: f"{FOLDER}/tls/{name}" for name in names}
        (folder / "config.yaml").write_text(json.dumps({**CONFIGURATIONS[server], "tls": tls, **changes}))
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, USER, USER)
            path.chmod(0o500 if path.is_dir() else 0o400)
        ports = [CALLED[server], 9443, *([ASKED] if server == "extender" else [])]
        # In place of the manifests' emptyDir: the only folder that the server may write to.
        writable = "/var/log/carico" if server == "extender" else None
        command = ["carico", server, "--config", f"{FOLDER}/config.yaml"]
        return run("carico", *command, ports=ports, folder=folder, writable=writable)

    return start


@pytest.fixture
def server(serve, authority):
    """A function that starts a server and returns its container when it serves."""

    def start(name):
        container = serve(name)
        ca = authority.node("kubelet").ca
        container.wait_until(f"{name} is healthy", lambda: container.status(ca, "/healthz") != 200)
        # The status is there before the other ports are.
        container.wait_until(f"{name} serves", lambda: "serving" not in container.logged())
        return container

    return start


@pytest.fixture
def stranger(authority, pki):
    """A node's certificate of another CA, whose owner takes the server for what it is."""
    return msgspec.structs.replace(pki("another").node("node-a"), ca=authority.node("node-a").ca)


def learned():
    return Subspace.from_batch(np.random.default_rng(1).random((2, 10)))


async def exchange(address, files, node="node-a"):
    async with AggregationClient(address, ClientTls(files), node, CALL_S) as client:
        return await client.exchange(learned())


async def report(address, files, capacity, node="node-a"):
    async with ReportClient(address, ClientTls(files), CALL_S) as client:
        await client.report(CapacityReport(node, capacity, 0, time.time(), 1))


def ask(host, port, files, pod="u1"):
    """Call the extender as kube-scheduler does."""
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.certificate, files.key)
    metadata = {"name": "pi", "namespace": "default", "uid": pod}
    with closing(http.client.HTTPSConnection(host, port, timeout=CALL_S, context=context)) as connection:
        body = json.dumps({"Pod": {"metadata": metadata}, "NodeNames": ["node-a", "node-b"]})
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()


def refused_without_certificate(host, port, ca):
    """Whether a server closes connections of clients without certificate; TLS 1.3 shows that after the handshake."""
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host, port), CALL_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        try:
            return connection.recv(1) == b""
        except ssl.SSLError as error:
            return "CERTIFICATE_REQUIRED" in str(error)
        except ConnectionResetError:
            return True


def test_the_aggregator_merges_only_for_nodes_of_its_ca(server, authority, stranger, host):
    aggregator = server("aggregator")
    address = f"{host}:{aggregator.port(CALLED['aggregator'])}"
    merged = asyncio.run(exchange(address, authority.node("node-a")))
    np.testing.assert_allclose(merged.singular_values, learned().singular_values, rtol=1e-6)
    with pytest.raises(Unreachable, match="check `tls` on both sides"):
        asyncio.run(exchange(address, stranger))
    assert refused_without_certificate(host, aggregator.port(CALLED["aggregator"]), authority.node("x").ca)
    assert aggregator.status(authority.node("x").ca, "/readyz") == 200


def test_the_extender_chooses_the_node_that_has_reported(server, authority, stranger, host):
    extender = server("extender")
    scheduler = authority.server("kube-scheduler")
    asyncio.run(report(f"{host}:{extender.port(CALLED['extender'])}", authority.node("node-a"), 2.0))
    status, answer = ask(host, extender.port(ASKED), scheduler)
    assert (status, json.loads(answer)["NodeNames"]) == (200, ["node-a"])
    # A node's certificate may report, but not call the filter.
    assert ask(host, extender.port(ASKED), authority.node("node-a"))[0] == 403
    with pytest.raises(Unreachable, match="check `tls` on both sides"):
        asyncio.run(report(f"{host}:{extender.port(CALLED['extender'])}", stranger, 2.0))
    for port in (ASKED, CALLED["extender"]):
        assert refused_without_certificate(host, extender.port(port), authority.node("x").ca)


@pytest.mark.parametrize("name", CALLED)
def test_sigterm_ends_a_server_at_once_and_cleanly(server, name):
    code, took_s = server(name).end()
    assert code == 0
    assert took_s < END_S


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prot": 1}, "there is no field 'prot', did you mean 'port'?"),
        ({"status": {"port": 70_000}}, "status.port: "),
        ({"tls": None}, "insecure_loopback"),
        ({"tls": dict.fromkeys(["certificate", "key", "ca"], f"{FOLDER}/none")}, f"{FOLDER}/none"),
    ],
    ids=["unknown field", "number out of range", "no TLS", "no certificate"],
)
def test_a_wrong_configuration_ends_a_server_with_one_line(serve, name, changes, said):
    container = serve(name, **changes)
    assert container.wait() != 0  # at once, or there is no code
    (line,) = container.logged().splitlines()
    assert said in line
