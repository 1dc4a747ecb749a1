"""The signer's decisions, as the API server gets them; and the signer as a process."""

import base64
import copy
import threading
from datetime import UTC, datetime, timedelta
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry

from carico.config import KubernetesConfig, SignerConfig, StatusConfig
from carico.deployment.authority import NODES_CA_NAME, Authority
from carico.enrolment.metrics import SignerMetrics
from carico.enrolment.process import run_signer
from carico.enrolment.signer import Signer
from carico.errors import InvalidConfig, InvalidInput, KubeRefused
from tests.kits.signing_requests import pkcs10, spec

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = ec.generate_private_key(ec.SECP256R1())
GOOD = pkcs10(KEY)
PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests/one"


@pytest.fixture
def authority(tmp_path):
    authority = Authority(tmp_path / "nodes", NOW, 365)
    authority.make_ca(NODES_CA_NAME)
    return authority


class Watched:
    def __init__(self, kube, authority):
        self.registry = CollectorRegistry()
        metrics = SignerMetrics(self.registry)
        self.signer = Signer(kube, authority, "carico", timedelta(days=7), lambda: NOW, metrics)

    def count(self, result):
        return self.registry.get_sample_value("carico_signing_requests_total", {"result": result})


@pytest.fixture
def watched(kube, authority):
    return Watched(kube, authority)


@pytest.fixture
def ask(cluster):
    """Return a function that lets the API server have a request, and returns it as a watch does."""

    def run(asked=None, status=None):
        cluster.put(PATH, spec=asked or spec(GOOD), **({"status": status} if status else {}))
        thing = cluster.objects[PATH]
        thing["metadata"]["uid"] = "1"
        return copy.deepcopy(thing)

    return run


def conditions(cluster):
    found = cluster.objects[PATH].get("status", {}).get("conditions", [])
    return [(each["type"], each["status"], each["reason"]) for each in found]


def certificate(cluster):
    return x509.load_pem_x509_certificate(base64.b64decode(cluster.objects[PATH]["status"]["certificate"]))


def test_an_agents_request_is_approved_and_signed(cluster, watched, ask):
    watched.signer.consider(ask())
    assert conditions(cluster) == [("Approved", "True", "AgentOfNode")]
    made = certificate(cluster)
    assert made.subject.rfc4514_string() == "CN=node-a"
    assert (made.public_key(), made.not_valid_after_utc) == (KEY.public_key(), NOW + timedelta(days=7))
    assert [(change.method, change.path.rpartition("/")[2]) for change in cluster.changes] == [
        ("PUT", "approval"),
        ("PUT", "status"),
    ]
    assert watched.count("signed") == 1


def test_any_other_is_denied_with_the_reason(cluster, watched, ask):
    watched.signer.consider(ask(spec(GOOD, username="somebody\x1b[2J" + 1000 * "x")))
    assert conditions(cluster) == [("Denied", "True", "OtherAccount")]
    message = cluster.objects[PATH]["status"]["conditions"][0]["message"]
    assert message.startswith("system:serviceaccount:carico:carico-agent may ask for certificates of nodes")
    assert message.isprintable()
    assert len(message) <= 500
    assert "certificate" not in cluster.objects[PATH]["status"]
    assert (watched.count("refused"), watched.count("signed")) == (1, 0)


def test_one_that_somebody_else_has_approved_is_not_signed_for_that(cluster, watched, ask):
    approved = {"conditions": [{"type": "Approved", "status": "True", "reason": "KubectlApprove"}]}
    watched.signer.consider(ask(spec(GOOD, username="somebody"), approved))
    assert conditions(cluster) == [("Approved", "True", "KubectlApprove"), ("Failed", "True", "OtherAccount")]
    assert "certificate" not in cluster.objects[PATH]["status"]


def test_one_that_was_approved_before_the_signer_ended_is_signed(cluster, watched, ask):
    watched.signer.consider(ask(status={"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}))
    assert certificate(cluster).public_key() == KEY.public_key()
    assert [change.path.rpartition("/")[2] for change in cluster.changes] == ["status"]


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "Denied"}]},
        {"conditions": [{"type": "Approved"}, {"type": "Failed"}]},
        {"conditions": [{"type": "Approved"}], "certificate": "eA=="},
    ],
    ids=["denied", "failed", "signed"],
)
def test_what_is_decided_stays(cluster, watched, ask, status):
    watched.signer.consider(ask(status=status))
    assert cluster.changes == []


def test_of_two_replicas_one_signs(cluster, kube, authority, watched, ask):
    other = Watched(kube, authority)
    request = ask()
    watched.signer.consider(request)
    first = certificate(cluster)
    other.signer.consider(request)  # what it saw is older
    assert certificate(cluster) == first
    assert other.count("lost") == 1


def test_a_request_that_is_gone_is_nobodys(cluster, watched, ask):
    request = ask()
    del cluster.objects[PATH]
    watched.signer.consider(request)
    assert watched.count("lost") == 1


def test_a_request_that_cannot_be_answered_holds_up_no_other(cluster, watched, ask, caplog):
    cluster.refuse["PUT", "/one/approval"] = 422, "no such luck"
    watched.signer.consider(ask())
    assert watched.count("error") == 1
    assert "one cannot be answered: the Kubernetes API answered 422: no such luck" in caplog.text


def test_a_busy_server_is_asked_again(cluster, watched, ask):
    cluster.statuses = [503]
    request = ask()
    with pytest.raises(KubeRefused):
        watched.signer.consider(request)
    watched.signer.consider(request)
    assert watched.count("signed") == 1


def test_nothing_is_approved_that_cannot_be_signed(cluster, watched, ask, authority):
    (authority.folder / "ca.key").unlink()
    with pytest.raises(InvalidInput, match="there is no CA in"):
        watched.signer.consider(ask())
    assert cluster.changes == []


class TestProcess:
    @pytest.fixture
    def run(self, cluster, tmp_path, authority, caplog):
        """Run the process until the test ends; yields its status port."""
        caplog.set_level("INFO", "carico")
        config = SignerConfig(
            str(authority.folder),
            namespace="carico",
            kubernetes=KubernetesConfig(str(cluster.kubeconfig(tmp_path))),
            status=StatusConfig(port=0),
        )
        stop = threading.Event()
        running = threading.Thread(target=run_signer, args=(config, stop))
        running.start()
        try:
            while not (told := [each for each in caplog.records if each.getMessage() == "signing"]):
                stop.wait(0.01)
            yield told[0].status_port
        finally:
            stop.set()
            running.join()

    def page(self, port, path):
        try:
            answer = urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)
        except HTTPError as error:  # not ready yet
            answer = error
        with answer:
            return answer.read().decode()

    def test_it_signs_what_comes_and_says_so(self, cluster, run, until):
        cluster.put(PATH, spec=spec(GOOD), metadata={"name": "one", "uid": "1"})
        until(lambda: "certificate" in cluster.objects[PATH].get("status", {}))
        until(lambda: self.page(run, "/readyz") == "ok\n")
        assert self.page(run, "/healthz") == "ok\n"
        until(lambda: 'carico_signing_requests_total{result="signed"} 1.0' in self.page(run, "/metrics"))

    def test_without_a_ca_it_does_not_start(self, tmp_path, cluster):
        config = SignerConfig(str(tmp_path), namespace="carico")
        with pytest.raises(InvalidInput, match="there is no CA in"):
            run_signer(config, threading.Event())

    def test_it_must_know_the_agents_namespace(self, authority, monkeypatch):
        monkeypatch.delenv("NAMESPACE", raising=False)
        with pytest.raises(InvalidConfig, match="give `namespace`, or set NAMESPACE"):
            run_signer(SignerConfig(str(authority.folder)), threading.Event())
