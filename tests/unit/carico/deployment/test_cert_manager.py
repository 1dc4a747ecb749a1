"""Servers' certificates from cert-manager; `tests/cluster/kwok/test_cert_manager.py` asks the real one."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from carico.cli import main
from carico.deployment.cert_manager import NOBODY, OWN, Issuer
from carico.deployment.deploy import ISSUED, Deployment
from carico.deployment.manifests import LABELS, Choices
from carico.deployment.status import read_status
from carico.errors import InvalidInput, KubeUnreachable, NotReady
from carico.testing import ManualClock
from tests.kits.fake_cert_manager import API, SECRETS, FakeCertManager

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SERVERS = ["extender", "kube-scheduler", "signer"]
USERS = Issuer("ClusterIssuer", "internal")
DEMAND = Choices(variant="demand")
SCHEDULERS = "/apis/apps/v1/namespaces/carico/statefulsets/carico-scheduler"


class Deployed:
    def __init__(self, cluster, kube, folder):
        self.cluster, self.lines, self.folder = cluster, [], folder / "users"
        self.clock = ManualClock()
        self.deployment = Deployment(kube, self.clock, self.lines.append)

    def deploy(self, choices=DEMAND, now=NOW, **options):
        self.deployment.deploy(choices, now, folder=self.folder, **options)

    def secret(self, server):
        data = self.cluster.objects[f"{SECRETS}/carico-{server}-tls"]["data"]
        return {name: base64.b64decode(text) for name, text in data.items()}

    @property
    def ca(self):
        return self.cluster.objects["/api/v1/namespaces/carico/configmaps/carico-ca"]["data"]["ca.crt"]

    @property
    def rolls(self):
        return self.cluster.objects[SCHEDULERS]["spec"]["template"]["metadata"]["annotations"][ISSUED]

    def signed(self, server):
        """Whether the CA that pods trust has signed a server's certificate."""
        certificate = x509.load_pem_x509_certificate(self.secret(server)["tls.crt"])
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(self.ca.encode()))
        return certificate


@pytest.fixture
def deployed(cluster, kube, tmp_path):
    return Deployed(cluster, kube, tmp_path)


@pytest.fixture
def manager(cluster, deployed, tmp_path):
    manager = FakeCertManager(cluster, tmp_path)
    deployed.clock.on_advance = manager.look
    return manager


def spoiling(look, cluster, data):
    """Return what issues certificates as `look` does, but puts other data into their Secrets."""

    def spoil(seconds):
        look(seconds)
        for server in SERVERS:
            cluster.objects[f"{SECRETS}/carico-{server}-tls"]["data"] |= data

    return spoil


def with_unknown_key(pem):
    """Return a certificate with a key on a curve that there is not."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    curve = bytes.fromhex("2a8648ce3d030107")  # P-256
    assert curve in der
    lines = base64.encodebytes(der.replace(curve, curve[:-1] + b"\x7f"))
    return b"-----BEGIN CERTIFICATE-----\n" + lines + b"-----END CERTIFICATE-----\n"


class TestOwnCa:
    def test_every_server_has_a_certificate_with_the_names_and_uses_that_it_needs(self, deployed, manager):
        deployed.deploy(issuer=OWN)
        found = manager.certificates()
        assert sorted(found) == [f"carico-{server}" for server in SERVERS]
        spec = found["carico-extender"]["spec"]
        assert spec["dnsNames"][:2] == ["localhost", "carico-scheduler"]
        assert spec["uris"] == ["carico:server:extender"]
        assert spec["usages"] == ["digital signature", "server auth", "client auth"]
        assert spec["privateKey"] == {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}
        assert spec["issuerRef"] == {"group": "cert-manager.io", "kind": "Issuer", "name": "carico-ca"}
        assert LABELS.items() <= spec["secretTemplate"]["labels"].items()
        for server in SERVERS:
            assert deployed.signed(server)

    def test_the_key_of_the_ca_is_on_the_cluster_and_in_the_users_folder(self, cluster, deployed, manager):
        deployed.deploy(issuer=OWN)
        key = base64.b64decode(cluster.objects[f"{SECRETS}/carico-ca"]["data"]["tls.key"])
        assert key == (deployed.folder / "ca.key").read_bytes()
        assert cluster.objects[f"{API}/issuers/carico-ca"]["spec"] == {"ca": {"secretName": "carico-ca"}}

    def test_later_deployments_and_renewals_keep_to_it_and_leave_certificates_alone(self, cluster, deployed, manager):
        deployed.deploy(issuer=OWN)
        before = {server: deployed.secret(server) for server in SERVERS}
        later = NOW + timedelta(days=300)  # certificates made here would be due
        deployed.deploy(now=later)
        assert "cert-manager issues servers' certificates, with Issuer/carico-ca" in deployed.lines
        assert deployed.deployment.renew("carico", later, deployed.folder, every=True) == []
        assert {server: deployed.secret(server) for server in SERVERS} == before
        assert f"{SECRETS}/carico-ca" in cluster.objects

    def test_a_deployment_that_made_certificates_itself_goes_over_without_another_ca(self, deployed, manager):
        deployed.deploy()
        ca, rolls, before = deployed.ca, deployed.rolls, deployed.secret("extender")
        deployed.deploy(issuer=OWN)
        assert (deployed.ca, deployed.rolls) == (ca, rolls)
        assert deployed.secret("extender") != before
        assert deployed.signed("extender")

    def test_and_back(self, cluster, deployed, manager):
        deployed.deploy(issuer=OWN)
        rolls = deployed.rolls
        deployed.deploy(issuer=NOBODY)
        assert manager.certificates() == {}
        assert f"{API}/issuers/carico-ca" not in cluster.objects
        assert f"{SECRETS}/carico-ca" not in cluster.objects
        assert deployed.signed("extender")
        assert sorted(deployed.secret("extender")) == ["tls.crt", "tls.key"]
        assert deployed.rolls == rolls

    def test_a_new_ca_signs_all_certificates_anew(self, deployed, manager):
        deployed.deploy(issuer=OWN)
        ca = deployed.ca
        deployed.deploy(new_ca=True)
        assert deployed.ca != ca
        for server in SERVERS:
            assert deployed.signed(server)

    def test_a_secret_that_shows_no_certificate_of_it_is_filled_again(self, cluster, deployed, manager):
        deployed.deploy(issuer=OWN)
        path = f"{SECRETS}/carico-extender-tls"
        cluster.objects[path]["data"]["ca.crt"] = base64.b64encode(b"no PEM").decode()
        deployed.deploy()
        assert deployed.secret("extender")["ca.crt"].decode() == deployed.ca

    def test_a_certificate_that_names_no_issuer_is_an_error(self, cluster, deployed, manager):
        deployed.deploy(issuer=OWN)
        for server in SERVERS:
            cluster.objects[f"{API}/certificates/carico-{server}"]["spec"] = {}
        with pytest.raises(KubeUnreachable, match=r"malformed object.*issuerRef"):
            deployed.deploy()

    def test_a_variant_without_aggregators_needs_no_certificate_for_them(self, deployed, manager):
        deployed.deploy(Choices(), issuer=OWN)
        assert "carico-aggregator" in manager.certificates()
        deployed.deploy()
        assert sorted(manager.certificates()) == [f"carico-{server}" for server in SERVERS]


class TestIssuerOfTheUser:
    def test_its_ca_is_the_one_that_pods_trust(self, cluster, deployed, manager):
        ca = manager.add_issuer("ClusterIssuer", "internal")
        deployed.deploy(issuer=USERS)
        assert deployed.ca == ca
        for server in SERVERS:
            assert deployed.signed(server)
        assert f"{SECRETS}/carico-ca" not in cluster.objects
        assert not (deployed.folder / "ca.key").exists()
        assert f"{SECRETS}/carico-nodes-ca" in cluster.objects, "nodes have a CA of CARICO's own"

    def test_pods_are_rolled_when_it_has_another_ca(self, deployed, manager, cluster):
        manager.add_issuer("ClusterIssuer", "internal")
        deployed.deploy(issuer=USERS)
        rolls = deployed.rolls
        deployed.deploy()
        assert deployed.rolls == rolls
        assert deployed.deployment.renew("carico", NOW, deployed.folder) == []
        ca = manager.add_issuer("ClusterIssuer", "internal")
        for server in SERVERS:  # as cert-manager does when it renews
            cluster.objects.pop(f"{SECRETS}/carico-{server}-tls")
        rolled = deployed.deployment.renew("carico", NOW, deployed.folder)
        assert deployed.ca == ca
        assert [thing["metadata"]["name"] for thing in rolled] == ["carico-scheduler", "carico-agent"]

    def test_one_that_there_is_not_is_an_error_with_cert_managers_reason(self, cluster, deployed, manager):
        with pytest.raises(NotReady, match=r"carico-extender: Referenced \"ClusterIssuer\" not found: internal"):
            deployed.deploy(issuer=USERS)
        assert SCHEDULERS not in cluster.objects

    def test_without_its_controller_the_error_says_so(self, deployed, manager):
        deployed.clock.on_advance = lambda seconds: None
        with pytest.raises(NotReady, match=r"within 60 s: .*cert-manager has not looked at it: does its controller "):
            deployed.deploy(issuer=OWN)

    def test_one_that_names_no_ca_is_refused(self, cluster, deployed, manager):
        """As an issuer that asks a public CA."""
        manager.add_issuer("ClusterIssuer", "internal")
        manager.shows_ca = False
        with pytest.raises(InvalidInput, match="it names 0: use an issuer of a private CA"):
            deployed.deploy(issuer=USERS)
        assert SCHEDULERS not in cluster.objects

    @pytest.mark.parametrize("spoil", [lambda pem: b"no PEM", lambda pem: pem + b"\xff", with_unknown_key])
    def test_one_that_shows_something_else_than_a_ca_is_refused(self, cluster, deployed, manager, spoil):
        ca = manager.add_issuer("ClusterIssuer", "internal").encode()
        shown = base64.b64encode(spoil(ca)).decode()
        deployed.clock.on_advance = spoiling(manager.look, cluster, {"ca.crt": shown})
        with pytest.raises(InvalidInput, match="ClusterIssuer/internal must say which CA it signs with, as PEM"):
            deployed.deploy(issuer=USERS)
        assert SCHEDULERS not in cluster.objects

    def test_a_secret_that_makes_no_sense_is_an_error(self, cluster, deployed, manager):
        manager.add_issuer("ClusterIssuer", "internal")
        deployed.clock.on_advance = spoiling(manager.look, cluster, {"tls.crt": "!"})
        with pytest.raises(KubeUnreachable, match="a Secret whose data are no base64"):
            deployed.deploy(issuer=USERS)

    def test_its_ca_is_not_replaced_here(self, deployed, manager):
        manager.add_issuer("ClusterIssuer", "internal")
        deployed.deploy(issuer=USERS)
        with pytest.raises(InvalidInput, match="ClusterIssuer/internal signs servers: replace the CA there"):
            deployed.deploy(new_ca=True)

    def test_and_back(self, deployed, manager):
        ca = manager.add_issuer("ClusterIssuer", "internal")
        deployed.deploy(issuer=USERS)
        deployed.deploy(issuer=NOBODY)
        assert deployed.ca != ca
        assert deployed.signed("extender")
        assert manager.certificates() == {}


def test_where_it_is_not_used_a_line_says_that_there_is_one(deployed, manager):
    deployed.deploy()
    assert any("this cluster has cert-manager: with --cert-manager" in line for line in deployed.lines)
    assert manager.certificates() == {}


@pytest.mark.parametrize("issuer", [OWN, USERS])
def test_where_there_is_none_an_issuer_is_refused_before_anything_is_applied(cluster, deployed, issuer):
    with pytest.raises(InvalidInput, match="the cluster has no cert-manager"):
        deployed.deploy(issuer=issuer)
    assert cluster.changes == []
    deployed.deploy(issuer=NOBODY)
    assert not any("cert-manager" in line for line in deployed.lines)


def test_removing_everything_removes_certificates_before_their_secrets(cluster, deployed, manager):
    deployed.deploy(issuer=OWN)
    cluster.changes.clear()
    deployed.deployment.undeploy("carico")
    gone = [change.path for change in cluster.changes if change.method == "DELETE"]
    assert gone.index(f"{API}/certificates/carico-extender") < gone.index(f"{SECRETS}/carico-extender-tls")
    assert f"{API}/issuers/carico-ca" in gone


def test_the_status_says_which_certificates_cannot_be_renewed(cluster, deployed, manager, kube):
    deployed.deploy(issuer=OWN)
    manager.look()

    def about_certificates():
        return [each for each in read_status(kube, "carico", NOW).problems if "cert-manager" in each]

    assert about_certificates() == []
    path = f"{API}/certificates/carico-signer"
    conditions = [
        {"type": "Ready", "status": "False", "message": "Certificate expired"},
        {"type": "Issuing", "status": "True", "message": "the CA is out of order"},
    ]
    cluster.objects[path] = cluster.objects[path] | {"status": {"conditions": conditions}}
    assert about_certificates() == [
        "certificate.cert-manager.io/carico-signer is not ready: the CA is out of order",
    ]


@pytest.mark.parametrize("wrong", ["internal", "Issuer/", "Secret/internal", "Issuer/a/b"])
def test_an_issuer_is_named_by_its_kind_and_name(wrong, capsys, cluster, tmp_path):
    assert main(["deploy", "--cert-manager", wrong, "--kubeconfig", str(cluster.kubeconfig(tmp_path))]) == 1
    assert f"Issuer/NAME or ClusterIssuer/NAME, got '{wrong}'" in capsys.readouterr().err
    assert cluster.asked == []
