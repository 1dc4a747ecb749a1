"""The processes with the shipped configuration: they work together, and no port accepts plain text."""

import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime

import psutil
import pytest
import yaml

from carico.deployment.authority import Authority
from carico.deployment.certificates import SERVERS, make
from carico.deployment.manifests import Choices, manifests
from carico.rpc.tls import is_loopback

from ..processes.real_processes import Process, wait_for

pytestmark = pytest.mark.machine
HTTP = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
ALERT = 0x15
"""The first byte of a TLS alert."""


def shipped(name):
    (data,) = [
        thing["data"]
        for thing in manifests(Choices())
        if thing["kind"] == "ConfigMap" and name in thing.get("data", ())
    ]
    return yaml.safe_load(data[name])


@pytest.fixture
def processes(tmp_path):
    """Aggregation server, extender and agent with the shipped configuration, except for ports, files and pod events."""
    nodes = Authority(tmp_path / "nodes", datetime.now(UTC))
    nodes.folder.mkdir()
    make(Authority(tmp_path, datetime.now(UTC)), nodes, {server: ["localhost"] for server in SERVERS})
    own = nodes.make_node("node-a")
    (tmp_path / "node.pem").write_bytes(own.read_bytes() + own.with_suffix(".key").read_bytes())
    running = {}

    def start(name, **changes):
        configuration = shipped(f"{name}.yaml") | {"logs": {"format": "text"}} | changes
        configuration["status"]["port"] = 0
        if "key" in configuration["status"]:
            (tmp_path / "key").write_text("of-the-test")
            configuration["status"]["key"] = "key"
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(configuration))
        running[name] = Process(tmp_path, name, "-m", "carico", name, "--config", str(file))
        return running[name]

    def of(server):
        own = {"certificate": f"server-{server}.crt", "key": f"server-{server}.key"}
        return own | {"ca": "ca.crt", "nodes_ca": "nodes/ca.crt"}

    aggregator = start("aggregator", port=0, replica_port=0, peers=[], tls=of("aggregator"))
    extender = start("extender", port=0, report_port=0, kubernetes=None, journal=None, tls=of("extender"))
    start(
        "agent",
        node="node-a",
        aggregator=f"localhost:{aggregator.told('port')}",
        schedulers=[f"localhost:{extender.told('report_port')}"],
        tls={"certificate": "node.pem", "key": "node.pem", "ca": "ca.crt", "nodes_ca": "nodes/ca.crt"},
        pod_events={"source": "processes", "pattern": "^no such program$"},
        checkpoint="state.json",
    )
    yield running
    for process in running.values():
        process.end()


def answer(port, what, context=None):
    """Return a port's answer to these bytes, over TLS if a context is given; empty if the port just closes."""
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        plain if context is None else context.wrap_socket(plain) as connection,
    ):
        connection.sendall(what)
        return connection.recv(1000)
    return b""


def listening(process):
    found = psutil.Process(process.process.pid).net_connections(kind="inet")
    return {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN and not is_loopback(each.laddr.ip)}


def test_the_processes_work_together_and_no_port_accepts_plain_text(processes):
    anybody = ssl._create_unverified_context()
    agent = processes["agent"]
    status = int(agent.told("status_port"))
    ready = HTTP.replace(b"healthz", b"readyz")
    wait_for(lambda: answer(status, ready, anybody).startswith(b"HTTP/1.1 200"), agent)
    for name, number in {"agent": 1, "aggregator": 3, "extender": 2}.items():
        process = processes[name]
        ports = listening(process)
        assert len(ports) == number, name
        status = int(process.told("status_port"))
        assert status in ports
        if name == "extender":  # the port for kube-scheduler is on loopback, and uses TLS nevertheless
            ports = {*ports, int(process.told("port"))}
        assert answer(status, HTTP, anybody).startswith(b"HTTP/1.1 200"), name
        for port in ports:
            for request in (HTTP, HTTP2):
                reply = answer(port, request)
                assert not reply or reply[0] == ALERT, (name, reply)
                if port != status:
                    assert answer(port, request, anybody) == b"", f"{name} answers a client without a certificate"
