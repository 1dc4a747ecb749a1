"""The ports that CARICO's pods listen on, from the kernel: only the declared ones, and only with TLS."""

from __future__ import annotations

import pytest

from carico.deployment.manifests import COMPONENT, NAMESPACE, SELECTOR

pytestmark = pytest.mark.cluster

PROGRAMS = {"agent": "carico agent", "aggregator": "carico aggregator", "scheduler": "carico extender"}
"""The command line of each component's process; the scheduler's extender shares its network with kube-scheduler."""
LISTENS = "0A"
ANY = ("0" * 8, "0" * 32)
LOOPBACK = ("0100007F", "00000000000000000000000001000000")
"""127.0.0.1 and ::1 as the kernel writes them."""
ALERT = b"\x15\x03"
REFUSED_BY_GO = b"HTTP/1.0 400 Bad Request"
"""The answer of Go's servers to a request without TLS; its text mentions HTTPS."""


def ports_beyond_loopback(sockets: str) -> set[int]:
    """Return the ports of listening sockets beyond loopback, from the contents of /proc/net/tcp and tcp6."""
    found = set()
    for line in sockets.splitlines():
        columns = line.split()
        if len(columns) < 4 or columns[3] != LISTENS:
            continue
        address, port = columns[1].split(":")
        if address not in LOOPBACK:
            assert address in ANY, f"a socket with an address of its own: {line}"
            found.add(int(port, 16))
    return found


@pytest.mark.parametrize("component", PROGRAMS)
def test_declared_ports_are_open_and_speak_tls_only(kind_cluster, component):
    docker, seen = kind_cluster.docker, 0
    pods = kind_cluster.api.objects.list("v1", "Pod", NAMESPACE, f"{SELECTOR},{COMPONENT}={component}")
    containers = pods[0]["spec"]["containers"]
    declared = {port["containerPort"] for container in containers for port in container.get("ports", ())}
    for node in {pod["spec"]["nodeName"] for pod in pods}:
        for process in docker.call("exec", node, "pgrep", "--full", PROGRAMS[component]).split():
            inside = ("exec", node, "nsenter", f"--net=/proc/{process}/ns/net", "bash", "-c")
            opened = ports_beyond_loopback(
                docker.call("exec", node, "cat", f"/proc/{process}/net/tcp", f"/proc/{process}/net/tcp6")
            )
            assert opened == declared
            for port in opened:
                # The server may close the connection before it has read the whole request.
                connect = f"trap '' PIPE; exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1; exec 2> /dev/null"
                ask = f"{connect}; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3"
                answer = bytes.fromhex(docker.call(*inside, f"{ask}; timeout 5 cat <&3 | od -An -v -tx1"))
                plain = answer and not answer.startswith(ALERT)
                assert not plain or (answer.startswith(REFUSED_BY_GO) and b"HTTPS" in answer), (port, answer)
            seen += 1
    assert seen == len(pods)
