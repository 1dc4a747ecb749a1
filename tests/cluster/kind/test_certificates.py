"""Certificates of real nodes: every agent has one of its own, which it got by itself, and shows how long it lasts."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from carico.deployment.certificates import KEYS_OF_NODES, NODES_CA_SECRET
from carico.deployment.manifests import COMPONENT, NAMESPACE, SELECTOR
from carico.deployment.status import STATUS_PORT
from carico.errors import KubeError
from testbed.real.waiting import wait_until

pytestmark = pytest.mark.cluster

WEEK_S = 7 * 86_400
AGAIN_S = 120.0
FILE = "/run/carico/node.pem"


def expiry_s(kind_cluster, pod: str, of: str) -> float:
    """Return for how long an agent says that a certificate is valid."""
    page = kind_cluster.api.objects.text_of_pod(NAMESPACE, pod, STATUS_PORT, "metrics")
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    wanted = "carico_certificate_expiry_seconds", {"of": of}
    return next(sample.value for sample in samples if (sample.name, sample.labels) == wanted)


def agents(kind_cluster) -> dict[str, str]:
    """Return the agents' pods, by node."""
    pods = kind_cluster.api.objects.list("v1", "Pod", NAMESPACE, f"{SELECTOR},{COMPONENT}=agent")
    return {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in pods}


def test_every_agent_has_a_certificate_of_a_week_and_no_secret_has_nodes_keys(kind_cluster):
    found = agents(kind_cluster)
    assert sorted(found) == sorted(kind_cluster.nodes)
    for pod in found.values():
        assert 0 < expiry_s(kind_cluster, pod, "certificate") <= WEEK_S
        assert expiry_s(kind_cluster, pod, "nodes_ca") > WEEK_S
    secrets = {thing["metadata"]["name"] for thing in kind_cluster.api.objects.list("v1", "Secret", NAMESPACE)}
    assert NODES_CA_SECRET in secrets
    assert KEYS_OF_NODES not in secrets


def test_a_new_pod_gets_another_key(kind_cluster):
    """The earlier key ends with the pod, whose memory it was in."""
    node = kind_cluster.workers[0]

    def certificate() -> str:
        """Return the node's certificate and key, as root on the node can read them."""
        docker, pod = kind_cluster.docker, agents(kind_cluster).get(node)
        process = docker.call("exec", node, "pgrep", "--full", "carico[.]enrolment").split()
        return docker.call("exec", node, "cat", f"/proc/{process[-1]}/root{FILE}") if pod and process else ""

    first = certificate()
    assert "BEGIN CERTIFICATE" in first
    metadata = {"name": agents(kind_cluster)[node], "namespace": NAMESPACE}
    kind_cluster.api.objects.delete({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    def lacking() -> str:
        pod = agents(kind_cluster).get(node)
        if pod in (None, metadata["name"]):
            return "there is no new pod"
        try:
            return "" if expiry_s(kind_cluster, pod, "certificate") > 0 else "the certificate has expired"
        except (KubeError, StopIteration) as error:  # the pod does not answer yet
            return f"it shows no certificate: {error}"

    wait_until("the new agent runs with a certificate", lacking, AGAIN_S)
    assert certificate() not in ("", first)
