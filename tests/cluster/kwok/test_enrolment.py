"""Every node gets a certificate of its own, and nobody another's, on a real API server.

KWOK's pods run no programs. So the signer and the program that asks for certificates run on this machine as real
processes, with the tokens that their pods would have: that of an agent is bound to a fake pod on a fake node, as the
kubelet asks for it.
"""

import asyncio
import base64
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import kubernetes.client
import msgspec
import pytest
import yaml
from cryptography import x509
from kubernetes.client.exceptions import ApiException

from carico.config import TlsFiles
from carico.errors import Refused
from carico.extender.report_server import CapacityServer
from carico.rpc.clients import ReportClient
from carico.rpc.tls import ClientTls
from carico.scheduling.report import CapacityReport
from tests.kits.signing_requests import pkcs10

from .deployed import NAMESPACE, Cluster
from .test_deploy import account_token, kubeconfig_with

pytestmark = pytest.mark.cluster
NODES = ["enrol-node-0", "enrol-node-1"]
TIMEOUT_S = 90.0
REFUSED_BY_POLICY = 422


@pytest.fixture(scope="module")
def deployed(carico_cluster):
    """A cluster with CARICO, whose admission policy is in force."""
    cluster = Cluster(carico_cluster.kubeconfig)
    for node in NODES:
        cluster.add_node(node)
    try:
        code, out = cluster.carico("deploy", "--wait", "180")
        assert code == 0, out
        with acting(cluster, agent_token(cluster, NODES[0])) as certificates:
            until(lambda: status_of(certificates, request("policy", signer="example.com/other")) == REFUSED_BY_POLICY)
        yield cluster
    finally:
        cluster.carico("undeploy", "--wait", "180")
        for node in NODES:
            cluster.remove_node(node)
        everybodys = kubernetes.client.CertificatesV1Api(cluster.core.api_client)
        for thing in everybodys.list_certificate_signing_request().items:
            everybodys.delete_certificate_signing_request(thing.metadata.name)


def until(condition, within_s=TIMEOUT_S):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
        time.sleep(0.1)
    return found


def agent_pod(cluster, node):
    pods = cluster.core.list_namespaced_pod(
        NAMESPACE, label_selector="app.kubernetes.io/component=agent", field_selector=f"spec.nodeName={node}"
    ).items
    return pods[0]


def agent_token(cluster, node):
    """Return the token that the kubelet would mount into the agent's pod on a node."""
    pod = agent_pod(cluster, node)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
    return cluster.core.create_namespaced_service_account_token(
        "carico-agent", NAMESPACE, {"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}}
    ).status.token


def unbound_token(cluster):
    return cluster.core.create_namespaced_service_account_token(
        "carico-agent", NAMESPACE, {"spec": {"expirationSeconds": 3600}}
    ).status.token


@contextmanager
def acting(cluster, token):
    """Yield the API for certificates with a token."""
    configuration = kubernetes.client.Configuration(host=cluster.configuration.host)
    configuration.ssl_ca_cert = cluster.configuration.ssl_ca_cert
    configuration.api_key = {"authorization": f"Bearer {token}"}
    with kubernetes.client.ApiClient(configuration) as api:
        yield kubernetes.client.CertificatesV1Api(api)


def request(name, signer="carico.dev/node", usages=("client auth",), pem=None, prefix="carico-node-", **metadata):
    """Return a request; its name begins as those of agents do."""
    encoded = base64.b64encode(pem or pkcs10()).decode()
    return {
        "metadata": {"name": f"{prefix}{name}"} | metadata,
        "spec": {"signerName": signer, "usages": list(usages), "request": encoded},
    }


def status_of(certificates, body):
    """Return the HTTP status with which a request would be created or refused."""
    try:
        certificates.create_certificate_signing_request(body, dry_run="All")
    except ApiException as error:
        return error.status
    return 201


class Signer:
    """`carico signer` as in its container, with its account, its CA and its settings except for addresses."""

    def __init__(self, deployed, folder, name="signer"):
        folder = folder / name
        tls = deployed.server_files("signer", folder / "tls")
        authority = deployed.nodes_authority(folder / "authority").folder
        config = deployed.configuration_file("scheduler", "signer.yaml")
        kubeconfig = kubeconfig_with(deployed, account_token(deployed, "carico-signer"), "carico-signer", folder)
        config |= {
            "authority": str(authority),
            "namespace": NAMESPACE,
            "tls": msgspec.to_builtins(tls),
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "status": {"host": "127.0.0.1", "port": 0, "tls": True},
        }
        (folder / "signer.yaml").write_text(yaml.safe_dump(config))
        self.log = folder / "log"
        with self.log.open("wb") as stream:
            command = [sys.executable, "-m", "carico", "signer", "--config", str(folder / "signer.yaml")]
            self.process = subprocess.Popen(command, stderr=stream)

    def lines(self, message):
        return [line for line in map(json.loads, self.log.read_text().splitlines()) if line["message"] == message]

    def close(self):
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text()


@pytest.fixture
def signer(deployed, tmp_path):
    with closing(Signer(deployed, tmp_path)) as signer:
        yield signer


class Node:
    """What runs in the container `certificate` of the agent's pod on a node."""

    def __init__(self, deployed, folder, node, token=None):
        self.folder = folder / node
        self.folder.mkdir()
        self.node = node
        self.file = self.folder / "node.pem"
        for name, text in deployed.cas().items():
            (self.folder / name).write_bytes(text)
        kubeconfig = kubeconfig_with(deployed, token or agent_token(deployed, node), "carico-agent", self.folder)
        options = {"out": self.file, "nodes-ca": self.folder / "nodes-ca.crt", "node": node, "kubeconfig": kubeconfig}
        self.options = [f"--{name}={value}" for name, value in options.items()]

    def enrol(self, *options):
        command = [sys.executable, "-m", "carico", "enrol", *self.options, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    @property
    def names(self):
        certificate = x509.load_pem_x509_certificate(self.file.read_bytes())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [name.value for name in found]

    @property
    def tls(self):
        own = str(self.file)
        return TlsFiles(own, own, str(self.folder / "ca.crt"), str(self.folder / "nodes-ca.crt"))


@pytest.fixture
def node(deployed, tmp_path):
    return lambda name, **options: Node(deployed, tmp_path, name, **options)


async def report(port, tls, about):
    async with ReportClient(f"localhost:{port}", ClientTls(tls), deadline_s=5.0) as client:
        await client.report(CapacityReport(about, 1.0, 0, time.time(), random.randrange(1, 1 << 31)))


def test_every_node_gets_a_certificate_with_which_it_reports_for_itself_alone(deployed, signer, node, tmp_path):
    nodes = [node(name) for name in NODES]
    with ThreadPoolExecutor() as pool:
        for done in pool.map(Node.enrol, nodes):
            assert done.returncode == 0, done.stderr
    assert [each.names for each in nodes] == [[f"carico:node:{name}"] for name in NODES]
    reported = []
    tls = deployed.server_files("extender", tmp_path / "extender")
    server = CapacityServer(lambda report: reported.append(report.node) or {}, tls, "localhost", 0)
    with closing(server):
        for each in nodes:
            asyncio.run(report(server.port, each.tls, each.node))
        with pytest.raises(Refused, match=f"carico:node:{NODES[1]} is needed, got carico:node:{NODES[0]}"):
            asyncio.run(report(server.port, nodes[0].tls, NODES[1]))
    assert reported == NODES


def test_a_node_that_comes_before_the_signer_waits_and_goes_on(deployed, node, tmp_path):
    """The process that keeps a certificate, as it runs in the container."""
    one = node(NODES[0])
    command = [sys.executable, "-m", "carico.enrolment", *one.options, "--wait=2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = json.loads(process.stderr.readline())
            assert "has had no answer for 2 s: does `carico signer` run" in line["message"]
            with closing(Signer(deployed, tmp_path)):
                until(one.file.exists)
            while "is valid until" not in (line := json.loads(process.stderr.readline()))["message"]:
                pass
        finally:
            process.terminate()
    assert process.returncode == 0
    assert one.names == [f"carico:node:{NODES[0]}"]


def test_two_signers_sign_every_request_once(deployed, node, tmp_path):
    with closing(Signer(deployed, tmp_path, "one")) as one, closing(Signer(deployed, tmp_path, "two")) as two:
        until(lambda: one.lines("signing") and two.lines("signing"))
        names = [f"carico-node-many-{number}" for number in range(20)]
        with acting(deployed, agent_token(deployed, NODES[0])) as certificates:
            for name in names:
                certificates.create_certificate_signing_request(request(name.removeprefix("carico-node-")))

            def answered():
                return all(certificates.read_certificate_signing_request(name).status.certificate for name in names)

            until(answered)
        until(lambda: len(signed_by(one, names)) + len(signed_by(two, names)) >= len(names))
    assert sorted(signed_by(one, names) + signed_by(two, names)) == sorted(names)


def signed_by(signer, names):
    return [line["request"] for line in signer.lines("signed") if line["request"] in names]


def test_what_a_request_says_of_itself_does_not_count(deployed, signer):
    """Root on one node has the token of its agent, and asks for more."""
    names = [x509.UniformResourceIdentifier("carico:server:aggregator"), x509.DNSName("carico-scheduler-0")]
    extensions = [x509.SubjectAlternativeName(names), x509.BasicConstraints(ca=True, path_length=None)]
    body = request("greedy", pem=pkcs10(common_name=NODES[1], extensions=extensions))
    body["spec"] |= {"username": "system:node:other", "extra": {"authentication.kubernetes.io/node-name": [NODES[1]]}}
    with acting(deployed, agent_token(deployed, NODES[0])) as certificates:
        certificates.create_certificate_signing_request(body)
        got = until(lambda: certificates.read_certificate_signing_request("carico-node-greedy").status.certificate)
    made = x509.load_pem_x509_certificate(base64.b64decode(got))
    assert made.subject.rfc4514_string() == f"CN={NODES[0]}"
    found = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(found) == [x509.UniformResourceIdentifier(f"carico:node:{NODES[0]}")]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_requests_of_others_are_denied_even_of_administrators(deployed, signer):
    everybodys = kubernetes.client.CertificatesV1Api(deployed.core.api_client)
    everybodys.create_certificate_signing_request(request("admins"))

    def conditions():
        return everybodys.read_certificate_signing_request("carico-node-admins").status.conditions

    (condition,) = until(conditions)
    assert (condition.type, condition.reason) == ("Denied", "OtherAccount")
    assert "system:serviceaccount:carico:carico-agent may ask for certificates of nodes" in condition.message


def test_requests_to_other_signers_are_not_touched(deployed, signer):
    everybodys = kubernetes.client.CertificatesV1Api(deployed.core.api_client)
    everybodys.create_certificate_signing_request(request("elsewhere", signer="example.com/other"))
    everybodys.create_certificate_signing_request(request("here"))
    until(lambda: everybodys.read_certificate_signing_request("carico-node-here").status.conditions)
    assert not everybodys.read_certificate_signing_request("carico-node-elsewhere").status.conditions


@pytest.fixture
def agent(deployed):
    """The API for certificates with the token of a node's agent."""
    with acting(deployed, agent_token(deployed, NODES[0])) as certificates:
        yield certificates


class TestWhatAgentsMayAskFor:
    def test_a_certificate_of_a_node(self, agent):
        assert status_of(agent, request("good")) == 201
        assert status_of(agent, request("good", usages=("client auth", "digital signature"))) == 201

    @pytest.mark.parametrize(
        "body",
        [
            request("x", signer="kubernetes.io/kube-apiserver-client"),
            request("x", signer="kubernetes.io/kubelet-serving", usages=("server auth", "digital signature")),
            request("x", signer="example.com/other"),
            request("x", usages=("server auth",)),
            request("x", usages=("client auth", "cert sign")),
            request("x", finalizers=["example.com/stays"]),
            request("x", annotations={"large": "x" * 1000}),
            request("x", labels={"app.kubernetes.io/name": "carico"}),
            request("x", prefix="somebody-elses-"),
            request("x" * 100),
            request("x", pem=pkcs10(extensions=[x509.SubjectAlternativeName([x509.DNSName("a" * 60)] * 100)])),
        ],
        ids=[
            "API client",
            "kubelet",
            "other",
            "server",
            "CA",
            "finalizer",
            "annotation",
            "label",
            "name",
            "long name",
            "long request",
        ],
    )
    def test_nothing_else(self, agent, body):
        with pytest.raises(ApiException) as refused:
            agent.create_certificate_signing_request(body, dry_run="All")
        assert refused.value.status == REFUSED_BY_POLICY
        assert "CARICO" in refused.value.body

    def test_not_with_a_token_that_names_no_node(self, deployed):
        with acting(deployed, unbound_token(deployed)) as certificates, pytest.raises(ApiException) as refused:
            certificates.create_certificate_signing_request(request("nowhere"), dry_run="All")
        assert refused.value.status == REFUSED_BY_POLICY
        assert "The token names no node" in refused.value.body
        assert "ServiceAccountTokenPodNodeInfo" in refused.value.body

    def test_the_error_says_so_on_the_node(self, deployed, node):
        done = node(NODES[0], token=unbound_token(deployed)).enrol()
        assert done.returncode == 1
        assert "The token names no node" in done.stderr

    def test_agents_neither_approve_nor_sign_nor_remove_nor_see_all(self, agent):
        agent.create_certificate_signing_request(request("own"))
        own = agent.read_certificate_signing_request("carico-node-own")
        own.status.conditions = [
            {"type": "Approved", "status": "True", "reason": "Mine", "message": "", "lastUpdateTime": None}
        ]
        for attempt in (
            lambda: agent.replace_certificate_signing_request_approval("carico-node-own", own),
            lambda: agent.replace_certificate_signing_request_status("carico-node-own", own),
            lambda: agent.patch_certificate_signing_request("carico-node-own", {"metadata": {"labels": {"a": "b"}}}),
            lambda: agent.delete_certificate_signing_request("carico-node-own"),
            agent.list_certificate_signing_request,
        ):
            with pytest.raises(ApiException) as refused:
                attempt()
            assert refused.value.status == 403

    def test_others_are_not_affected(self, deployed):
        everybodys = kubernetes.client.CertificatesV1Api(deployed.core.api_client)
        assert status_of(everybodys, request("x", signer="example.com/other", labels={"a": "b"})) == 201


def test_the_signers_account_decides_on_its_own_requests_only(deployed):
    everybodys = kubernetes.client.CertificatesV1Api(deployed.core.api_client)
    theirs = everybodys.create_certificate_signing_request(
        request("theirs", signer="kubernetes.io/kube-apiserver-client")
    )
    approved = {"type": "Approved", "status": "True", "reason": "Mine", "message": "x"}
    body = kubernetes.client.ApiClient().sanitize_for_serialization(theirs) | {"status": {"conditions": [approved]}}
    with acting(deployed, account_token(deployed, "carico-signer")) as certificates:
        with pytest.raises(ApiException) as refused:
            certificates.replace_certificate_signing_request_approval("carico-node-theirs", body)
        assert refused.value.status == 403
        everybodys.replace_certificate_signing_request_approval("carico-node-theirs", body)
        theirs = everybodys.read_certificate_signing_request("carico-node-theirs")
        body = kubernetes.client.ApiClient().sanitize_for_serialization(theirs)
        body["status"]["certificate"] = base64.b64encode(deployed.cas()["ca.crt"]).decode()
        with pytest.raises(ApiException) as refused:
            certificates.replace_certificate_signing_request_status("carico-node-theirs", body)
        assert refused.value.status == 403


def test_a_token_ends_with_its_pod(deployed, signer, node):
    """Who has copied a token cannot use it when the node has been emptied; a new pod has another one."""
    one = node(NODES[1])
    deployed.core.delete_namespaced_pod(agent_pod(deployed, NODES[1]).metadata.name, NAMESPACE, grace_period_seconds=0)
    until(lambda: "answered 401" in one.enrol("--wait=2").stderr)
    assert not one.file.exists()


def test_a_kubelet_gets_no_token_of_an_agent_on_another_node(deployed):
    """So root on a node, who has the kubelet's rights, gets no certificate of another node."""
    pod = agent_pod(deployed, NODES[1])
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
    spec = {"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}}
    for node, expected in ((NODES[1], 201), (NODES[0], 403)):
        with kubernetes.client.ApiClient(deployed.configuration) as api:
            api.set_default_header("Impersonate-User", f"system:node:{node}")
            api.set_default_header("Impersonate-Group", "system:nodes")
            core = kubernetes.client.CoreV1Api(api)
            try:
                core.create_namespaced_service_account_token("carico-agent", NAMESPACE, spec)
                status = 201
            except ApiException as error:
                status = error.status
        assert status == expected
