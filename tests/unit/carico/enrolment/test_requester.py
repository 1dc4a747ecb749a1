"""A node's certificate, from the key to the file: with a signer, without one, and with a hostile one."""

import base64
import copy
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry

from carico.cli import main
from carico.config import TlsFiles
from carico.deployment.authority import NODES_CA_NAME, Authority
from carico.enrolment.metrics import SignerMetrics
from carico.enrolment.requester import Requester
from carico.enrolment.signer import Signer
from carico.errors import CertificateRefused, InvalidInput, KubeRefused, KubeUnreachable, NotReady
from carico.rpc.tls import PemFiles
from carico.testing import ManualClock
from tests.kits.signing_requests import NODE_OF_TOKEN

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LIFE = timedelta(days=7)


@pytest.fixture
def authority(tmp_path):
    authority = Authority(tmp_path / "nodes", NOW, 3650)
    authority.make_ca(NODES_CA_NAME)
    return authority


class Node:
    """A node that gets certificates, and the time there; `signs` is what happens while the node waits."""

    def __init__(self, kube, authority, folder, requests):
        folder.mkdir()
        self.file = folder / "node.pem"
        self.now = NOW
        self.clock = ManualClock()
        self.clock.on_advance = lambda seconds: self.signs()
        self.kube = kube
        self.requests = requests
        self.signer = Signer(kube, authority, "carico", LIFE, lambda: self.now, SignerMetrics(CollectorRegistry()))
        self.requester = Requester(
            "node-a", self.file, authority.folder / "ca.crt", self.clock, random.Random(1), lambda: self.now
        )

    def signs(self):
        for request in self.requests().values():
            self.signer.consider(copy.deepcopy(request))

    def ensure(self):
        return self.requester.ensure(lambda: self.kube)

    @property
    def certificate(self):
        return x509.load_pem_x509_certificate(self.file.read_bytes())


@pytest.fixture
def node(kube, authority, tmp_path, requests):
    return Node(kube, authority, tmp_path / "run", requests)


def test_a_node_gets_a_certificate_for_a_key_that_only_it_has(node, cluster, requests, authority):
    end, due = node.ensure()
    assert end == NOW + LIFE
    assert NOW + LIFE * 0.5 < due < NOW + LIFE * 2 / 3
    assert node.file.stat().st_mode & 0o777 == 0o400
    assert [file.name for file in node.file.parent.iterdir()] == ["node.pem"], "the key is nowhere else"
    PemFiles(TlsFiles(str(node.file), str(node.file), str(authority.folder / "ca.crt")))
    sent = "".join(str(request.body) for request in cluster.asked)
    key = serialization.load_pem_private_key(node.file.read_bytes(), None)
    assert "PRIVATE" not in sent
    assert key.public_key() == node.certificate.public_key()
    ((name, _),) = requests().items()
    assert name.startswith("carico-node-")


def test_a_certificate_that_is_not_due_is_kept_without_a_request(node, cluster):
    node.ensure()
    first, asked = node.file.read_bytes(), len(cluster.asked)
    node.now += LIFE * 0.5
    assert node.ensure()[0] == NOW + LIFE
    assert (node.file.read_bytes(), len(cluster.asked)) == (first, asked)


@pytest.mark.parametrize("share", [0.6, 2 / 3, 1.5])
def test_one_that_is_due_is_replaced_with_another_key(node, requests, share):
    node.ensure()
    first = node.certificate
    node.now += LIFE * share
    end, _ = node.ensure()
    assert end == node.now + LIFE
    assert node.certificate.public_key() != first.public_key()
    assert len(requests()) == 2


@pytest.mark.parametrize("spoil", [lambda file: file.unlink(), lambda file: (file.chmod(0o600), file.write_text("x"))])
def test_what_is_no_certificate_is_replaced(node, spoil):
    node.ensure()
    spoil(node.file)
    node.ensure()
    assert node.certificate.not_valid_after_utc == NOW + LIFE


def test_so_is_one_of_another_ca(node, authority):
    node.ensure()
    first = node.certificate
    Authority(authority.folder, NOW, 3650, overwrite=True).make_ca(NODES_CA_NAME)
    node.ensure()
    assert node.certificate.public_key() != first.public_key()
    node.certificate.verify_directly_issued_by(
        x509.load_pem_x509_certificate((authority.folder / "ca.crt").read_bytes())
    )


def test_a_shorter_life_can_be_asked_for(node):
    node.requester = Requester(
        "node-a",
        node.file,
        node.requester.ca,
        node.clock,
        random.Random(1),
        lambda: node.now,
        life=timedelta(minutes=10),
    )
    assert node.ensure()[0] == NOW + timedelta(minutes=10)


class TestWithoutASigner:
    def test_one_request_waits_however_often_a_node_tries(self, node, requests):
        works, node.signs = node.signs, lambda: None
        for _ in range(3):
            with pytest.raises(NotReady, match="no answer for 60 s: does `carico signer` run"):
                node.ensure()
        assert len(requests()) == 1
        assert not node.file.exists()
        node.signs = works
        node.ensure()
        assert len(requests()) == 1

    def test_a_request_that_was_removed_meanwhile_is_made_again(self, node, cluster, requests):
        works, node.signs = node.signs, lambda: None
        with pytest.raises(NotReady):
            node.ensure()
        (name,) = requests()
        cluster.objects = {path: thing for path, thing in cluster.objects.items() if name not in path}
        node.signs = works
        node.ensure()
        assert list(requests()) == [name]

    def test_a_busy_server_is_polled_on(self, node, cluster):
        works = node.signs

        def busy():
            works()
            cluster.statuses = [429]
            node.signs = lambda: None

        node.signs = busy
        assert node.ensure()[0] == NOW + LIFE


class TestWithoutAnApiServer:
    def test_the_error_says_so_and_the_next_attempt_continues(self, node, cluster, requests):
        cluster.refuse["POST", "/certificatesigningrequests"] = 503, "starting"
        with pytest.raises(KubeRefused, match="503: starting"):
            node.ensure()
        (waiting,) = node.file.parent.iterdir()
        key = waiting.read_bytes()
        assert waiting.stat().st_mode & 0o777 == 0o600
        cluster.refuse.clear()
        node.ensure()
        assert key in node.file.read_bytes()

    def test_a_policy_that_refuses_is_an_error_with_its_reason(self, node, cluster):
        cluster.refuse["POST", "/certificatesigningrequests"] = 422, "The token names no node"
        with pytest.raises(KubeRefused, match="The token names no node"):
            node.ensure()

    def test_a_server_that_is_gone_is_an_error(self, node, cluster):
        cluster.close()
        with pytest.raises(KubeUnreachable):
            node.ensure()

    def test_a_request_that_was_made_unnoticed_is_found(self, node, kube, requests, monkeypatch):
        """The answer to its creation was lost, and the next look came before the server had it."""
        works, node.signs = node.signs, lambda: None
        with pytest.raises(NotReady):
            node.ensure()
        look, looked = kube.signing_request, []

        def look_too_early_once(name):
            looked.append(name)
            if len(looked) == 1:
                raise KubeRefused("not found", 404)
            return look(name)

        monkeypatch.setattr(kube, "signing_request", look_too_early_once)
        node.signs = works
        node.ensure()
        assert len(requests()) == 1


class TestRefused:
    def test_the_signers_reason_is_the_error_and_the_next_key_is_another(self, node, cluster, requests):
        cluster.user = {"username": "somebody", "extra": {}}
        for _ in range(2):
            with pytest.raises(CertificateRefused, match=r"OtherAccount: .*'somebody' asked"):
                node.ensure()
        assert len(requests()) == 2
        assert list(node.file.parent.iterdir()) == []

    def test_a_certificate_for_another_node_is_of_no_use(self, node, cluster):
        cluster.user["extra"][NODE_OF_TOKEN] = ["node-b"]
        with pytest.raises(CertificateRefused, match="it is for carico:node:node-b, not carico:node:node-a"):
            node.ensure()
        assert not node.file.exists()

    def answer(self, node, requests, cluster, pem):
        def sign():
            for name in requests():
                path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"
                cluster.put(path, **cluster.objects[path] | {"status": {"certificate": base64.b64encode(pem).decode()}})

        node.signs = sign

    def test_so_is_one_for_another_key(self, node, requests, cluster, authority):
        other = ec.generate_private_key(ec.SECP256R1()).public_key()
        self.answer(node, requests, cluster, authority.sign_node("node-a", other, LIFE))
        with pytest.raises(CertificateRefused, match="has signed another key"):
            node.ensure()

    def test_so_is_one_of_another_ca(self, node, requests, cluster, tmp_path):
        other = Authority(tmp_path / "other", NOW, 365)
        other.make_ca(NODES_CA_NAME)
        node.signer = Signer(node.kube, other, "carico", LIFE, lambda: node.now, SignerMetrics(CollectorRegistry()))
        with pytest.raises(CertificateRefused, match="has not signed it"):
            node.ensure()

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            (b"\x55\x1d\x0f", b"\x55\x1d\x11", "has not signed it"),
            (b"\x03\x42\x00\x04", b"\x03\x42\x00\x05", "has not signed it"),
            (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07", "is not a certificate"),
        ],
        ids=["an extension twice", "no point of the curve", "an unknown version"],
    )
    def test_so_is_one_that_cannot_be_read(self, node, requests, cluster, authority, old, new, said):
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        signed = x509.load_pem_x509_certificate(authority.sign_node("node-a", key, LIFE))
        der = signed.public_bytes(serialization.Encoding.DER)
        assert old in der
        lines = base64.encodebytes(der.replace(old, new))
        self.answer(node, requests, cluster, b"-----BEGIN CERTIFICATE-----\n" + lines + b"-----END CERTIFICATE-----\n")
        with pytest.raises(CertificateRefused, match=said):
            node.ensure()
        assert not node.file.exists()

    @pytest.mark.parametrize("pem", [b"rubbish", b"\xff"])
    def test_so_is_rubbish(self, node, requests, cluster, pem):
        self.answer(node, requests, cluster, pem)
        with pytest.raises(CertificateRefused, match="is not a certificate"):
            node.ensure()


class TestFiles:
    def test_a_damaged_key_that_waits_is_replaced(self, node):
        (node.file.parent / ".node.pem.key").write_text("rubbish")
        assert node.ensure()[0] == NOW + LIFE

    def test_a_folder_that_is_missing_is_an_error(self, node):
        node.requester = Requester(
            "node-a", Path("/nowhere/node.pem"), node.requester.ca, node.clock, random.Random(1), lambda: node.now
        )
        with pytest.raises(InvalidInput, match=r"/nowhere/.* cannot be written: .*must exist and be writable"):
            node.ensure()

    def test_so_is_a_ca_that_is_missing(self, node, requests):
        node.requester.ca.unlink()
        with pytest.raises(InvalidInput, match="must hold the certificate of the CA of nodes"):
            node.ensure()
        assert requests() == {}

    def test_a_name_that_is_no_nodes_is_refused(self, node):
        with pytest.raises(InvalidInput, match="a node's name"):
            Requester("Node A", node.file, node.requester.ca, node.clock, random.Random(1))


def test_the_command_prints_when_the_certificate_is_due(node, cluster, tmp_path, monkeypatch, capsys):
    """There is a certificate, so it asks nobody."""
    node.now = datetime.now(UTC)
    node.ensure()
    monkeypatch.setenv("NODE_NAME", "node-a")
    options = ["enrol", "--out", str(node.file), "--nodes-ca", str(node.requester.ca)]
    assert main(options) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{node.file} is valid until ")
    due = datetime.fromisoformat(out.split()[-1])
    assert timedelta(days=3.9) < due - node.now < timedelta(days=4.7)


def test_the_commands_error_is_one_line(cluster, tmp_path, authority, capsys):
    cluster.refuse["GET", ""] = 403, "not you"
    kubeconfig = str(cluster.kubeconfig(tmp_path))
    options = ["enrol", "--out", str(tmp_path / "node.pem"), "--nodes-ca", str(authority.folder / "ca.crt")]
    assert main([*options, "--node", "node-a", "--kubeconfig", kubeconfig]) == 1
    assert capsys.readouterr().err == "carico: the Kubernetes API answered 403: not you\n"
