"""The network of nodes whose image was built here."""

from __future__ import annotations

import pytest

from testbed.real.waiting import wait_until

pytestmark = pytest.mark.cluster

AGAIN_S = 120.0
UNUSED = "10.96.250.250"
"""An address in the services' range that no service uses."""


def test_services_are_reachable_after_kube_proxys_full_synchronisation(kind_cluster):
    """kube-proxy synchronises fully at its start and every hour; a cluster kept for longer once lost its services."""
    node, docker = kind_cluster.workers[0], kind_cluster.docker
    if "kube-proxy" not in docker.call("exec", node, "sh", "-c", "nft list tables || true"):
        pytest.skip("kube-proxy is not in the mode nftables, as on nodes whose image was built here")
    address = kind_cluster.api.objects.read(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kubernetes", "namespace": "default"}}
    )["spec"]["clusterIP"]
    docker.call("exec", node, "nft", "add", "element", "ip", "kube-proxy", "cluster-ips", f"{{ {UNUSED} }}")
    docker.call("exec", node, "pkill", "-KILL", "-x", "kube-proxy")

    def unseen():
        known = docker.call("exec", node, "nft", "list", "set", "ip", "kube-proxy", "cluster-ips")
        return f"kube-proxy has not removed {UNUSED}" if UNUSED in known else ""

    wait_until("kube-proxy has synchronised all its rules", unseen, AGAIN_S)
    docker.call("exec", node, "timeout", "30", "bash", "-c", f"exec 3<> /dev/tcp/{address}/443")
