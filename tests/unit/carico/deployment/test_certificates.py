"""Certificates of a deployment: reused while they are valid, made for the cluster's nodes, restored from Secrets."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from carico.deployment.authority import Authority
from carico.deployment.certificates import CA_DAYS, EXPIRE, SERVERS, hosts_of, issued, make, pack, unpack
from carico.deployment.manifests import Choices, manifests
from carico.errors import InvalidInput

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = {"aggregator": ["carico-aggregator"], "extender": ["localhost"], "kube-scheduler": ["localhost"]}


def authority(folder, days=0):
    return Authority(folder, NOW + timedelta(days=days), overwrite=True)


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "certs"
    make(authority(folder), HOSTS, ["node-a", "node-b"])
    return folder


def test_valid_certificates_do_not_change(folder):
    before = content(folder)
    make(authority(folder, days=200), HOSTS, ["node-a", "node-b"])
    assert content(folder) == before


def test_certificates_near_expiry_are_renewed_by_the_same_ca(folder):
    before = content(folder)
    make(authority(folder, days=250), HOSTS, ["node-a", "node-b"])
    after = content(folder)
    assert {name for name in before if before[name] == after[name]} == {"ca.crt", "ca.key"}


def test_a_new_node_changes_no_other_certificate(folder):
    before = content(folder)
    make(authority(folder, days=100), HOSTS, ["node-a", "node-b", "node-c"])
    assert set(content(folder)) - set(before) == {"node-node-c.crt", "node-node-c.key"}
    assert content(folder).items() >= before.items()


def test_nodes_are_renewed_together_so_that_agents_are_rolled_once(folder):
    nodes = ["node-a", "node-b", "node-c"]
    make(authority(folder, days=100), HOSTS, nodes)
    names = [f"node-{node}" for node in nodes]
    first = issued(authority(folder), names)
    assert first == issued(authority(folder), names[:2]), "a later node rolls no pods"
    make(authority(folder, days=250), HOSTS, nodes)
    assert issued(authority(folder), names) > first
    assert len({authority(folder).validity(folder / f"{name}.crt")[0] for name in names}) == 1


def test_other_hosts_need_another_certificate(folder):
    before = content(folder)
    make(authority(folder), HOSTS | {"extender": ["localhost", "carico-scheduler-2"]}, ["node-a", "node-b"])
    after = content(folder)
    assert {name for name in before if before[name] != after[name]} == {"server-extender.crt", "server-extender.key"}


def test_a_new_ca_means_new_certificates(folder):
    before = content(folder)
    (folder / "ca.crt").unlink()
    make(authority(folder), HOSTS, ["node-a", "node-b"])
    assert not {name for name, text in content(folder).items() if before[name] == text}
    assert authority(folder).keeps_node("node-a")


@pytest.fixture
def from_another(tmp_path):
    """A folder with a CA of 100 days that another CA has issued, as in a company."""
    folder = tmp_path / "company"
    Authority(folder, NOW, 100).make_ca()
    key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    own = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    builder = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "company")]),
        own.subject,
        own.public_key(),
        own.serial_number,
        own.not_valid_before_utc,
        own.not_valid_after_utc,
        list(own.extensions),
    )
    (folder / "ca.crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return folder


def test_no_certificate_outlives_its_ca(from_another):
    make(authority(from_another), HOSTS, ["node-a"])
    until = authority(from_another).validity(from_another / "node-node-a.crt")[1]
    assert timedelta(0) <= authority(from_another).validity(from_another / "ca.crt")[1] - until < timedelta(days=1)


def test_a_ca_near_expiry_is_refused_if_another_one_has_to_renew_it(from_another):
    with pytest.raises(InvalidInput, match=r"the CA is valid until 2030-04-11, .*`carico deploy --new-ca`"):
        make(authority(from_another, days=71), HOSTS, ["node-a"])


def test_the_ca_is_renewed_with_its_key_and_other_certificates_stay(folder):
    make(authority(folder, days=2400), HOSTS, ["node-a", "node-b"])
    before = content(folder)
    make(authority(folder, days=2440), HOSTS, ["node-a", "node-b"])
    after = content(folder)
    assert {name for name in before if before[name] != after[name]} == {"ca.crt"}
    assert authority(folder).validity(folder / "ca.crt")[1] >= NOW + timedelta(days=2440 + CA_DAYS)


def test_all_certificates_may_be_renewed_before_they_expire(folder):
    before = content(folder)
    make(authority(folder), HOSTS, ["node-a", "node-b"], renew=True)
    after = content(folder)
    assert {name for name in before if before[name] == after[name]} == {"ca.crt", "ca.key"}


def test_the_first_expiry_is_noted(folder):
    make(authority(folder, days=100), HOSTS, ["node-a", "node-b", "node-c"])
    (noted, *_) = pack(authority(folder), HOSTS, ["node-a", "node-c"], "carico", with_ca_key=False)
    assert noted["metadata"]["annotations"][EXPIRE] == "2031-01-01T00:00:00Z"


def test_secrets_restore_the_whole_folder(folder, tmp_path):
    packed = pack(authority(folder), SERVERS, ["node-a", "node-b"], "carico", with_ca_key=True)
    back = tmp_path / "back"
    back.mkdir()
    unpack({each["metadata"]["name"]: each for each in packed if each["kind"] == "Secret"}, back)
    assert content(back) == content(folder)


def test_the_key_of_the_ca_may_stay_off_the_cluster(folder):
    packed = pack(authority(folder), SERVERS, ["node-a"], "carico", with_ca_key=False)
    assert "carico-ca" not in [each["metadata"]["name"] for each in packed if each["kind"] == "Secret"]
    assert "PRIVATE KEY" not in str(packed[0]), "all pods mount this object, so it holds the certificate alone"


def test_a_removed_node_is_left_out(folder):
    (secret,) = [
        each
        for each in pack(authority(folder), SERVERS, ["node-b"], "carico", with_ca_key=False)
        if each["metadata"]["name"] == "carico-agent-tls"
    ]
    assert list(secret["data"]) == ["node-b"]


def test_too_many_nodes_for_a_secret_are_refused(folder):
    for kind in ("crt", "key"):
        (folder / f"node-big.{kind}").write_bytes(b"x" * (1 << 19))
    with pytest.raises(InvalidInput, match=r"of 2 nodes are \d+ bytes, a Secret holds 1048576"):
        pack(authority(folder), SERVERS, ["node-a", "big"], "carico", with_ca_key=False)


@pytest.mark.parametrize("data", [{}, {"tls.crt": "!"}, {"tls.crt": "YQ=="}], ids=["nothing", "no base64", "no key"])
def test_an_invalid_secret_is_refused(tmp_path, data):
    with pytest.raises(InvalidInput, match="secret/carico-ca must hold a certificate and a key"):
        unpack({"carico-ca": {"data": data}}, tmp_path)


def test_server_hosts_are_its_service_and_every_replica():
    hosts = hosts_of(manifests(Choices()))
    assert hosts["aggregator"] == [
        "carico-aggregator",
        "carico-aggregator-0.carico-aggregator",
        "carico-aggregator-1.carico-aggregator",
    ]
    assert hosts["extender"][0] == "localhost"
