"""Certificates of a deployment: reused while they are valid, restored from Secrets."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from carico.deployment.authority import NODES_CA_NAME, Authority
from carico.deployment.certificates import CA_DAYS, EXPIRE, SERVERS, hosts_of, make, pack, unpack
from carico.deployment.manifests import Choices, manifests
from carico.errors import InvalidInput

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = {server: ["carico-aggregator" if server == "aggregator" else "localhost"] for server in SERVERS}
CAS = {f"{folder}/ca.{kind}" for folder in ("certs", "certs-nodes") for kind in ("crt", "key")}


def authority(folder, days=0):
    return Authority(folder, NOW + timedelta(days=days), overwrite=True)


def nodes_ca(folder, days=0):
    """The authority of the nodes' CA, in a folder beside."""
    beside = folder.with_name(f"{folder.name}-nodes")
    beside.mkdir(exist_ok=True)
    return authority(beside, days)


def content(folder):
    both = [*folder.iterdir(), *nodes_ca(folder).folder.iterdir()]
    return {str(file.relative_to(folder.parent)): file.read_bytes() for file in both}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "certs"
    make(authority(folder), nodes_ca(folder), HOSTS)
    return folder


def test_valid_certificates_do_not_change(folder):
    before = content(folder)
    make(authority(folder, days=200), nodes_ca(folder, days=200), HOSTS)
    assert content(folder) == before


def test_certificates_near_expiry_are_renewed_by_the_same_ca(folder):
    before = content(folder)
    make(authority(folder, days=250), nodes_ca(folder, days=250), HOSTS)
    after = content(folder)
    assert {name for name in before if before[name] == after[name]} == CAS


def test_other_hosts_need_another_certificate(folder):
    before = content(folder)
    make(authority(folder), nodes_ca(folder), HOSTS | {"extender": ["localhost", "carico-scheduler-2"]})
    after = content(folder)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"certs/server-extender.crt", "certs/server-extender.key"}


def test_a_new_ca_means_new_certificates(folder):
    before = content(folder)
    (folder / "ca.crt").unlink()
    make(authority(folder), nodes_ca(folder), HOSTS)
    kept = {name for name, text in content(folder).items() if before[name] == text}
    assert kept == {"certs-nodes/ca.crt", "certs-nodes/ca.key"}
    assert authority(folder).keeps_server("extender", HOSTS["extender"])


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
    make(authority(from_another), nodes_ca(from_another), HOSTS)
    until = authority(from_another).validity(from_another / "server-extender.crt")[1]
    assert timedelta(0) <= authority(from_another).validity(from_another / "ca.crt")[1] - until < timedelta(days=1)


def test_a_ca_near_expiry_is_refused_if_another_one_has_to_renew_it(from_another):
    with pytest.raises(InvalidInput, match=r"the CA is valid until 2030-04-11, .*`carico deploy --new-ca`"):
        make(authority(from_another, days=71), nodes_ca(from_another, days=71), HOSTS)


def test_the_ca_is_renewed_with_its_key_and_other_certificates_stay(folder):
    make(authority(folder, days=2400), nodes_ca(folder, days=2400), HOSTS)
    before = content(folder)
    make(authority(folder, days=2440), nodes_ca(folder, days=2440), HOSTS)
    after = content(folder)
    assert {name for name in before if before[name] != after[name]} == {"certs/ca.crt", "certs-nodes/ca.crt"}
    assert authority(folder).validity(folder / "ca.crt")[1] >= NOW + timedelta(days=2440 + CA_DAYS)


def test_all_certificates_may_be_renewed_before_they_expire(folder):
    before = content(folder)
    make(authority(folder), nodes_ca(folder), HOSTS, renew=True)
    after = content(folder)
    assert {name for name in before if before[name] == after[name]} == CAS


def test_the_first_expiry_is_noted(folder):
    make(authority(folder, days=100), nodes_ca(folder, days=100), HOSTS)
    (noted, *_) = pack(authority(folder), nodes_ca(folder), HOSTS, "carico", with_ca_key=False)
    assert noted["metadata"]["annotations"][EXPIRE] == "2031-01-01T00:00:00Z"


def test_the_end_of_the_nodes_ca_counts_as_well(folder):
    nodes_ca(folder).folder.joinpath("ca.crt").unlink()
    Authority(nodes_ca(folder).folder, NOW, 40, overwrite=True).make_ca(NODES_CA_NAME)
    (noted, *_) = pack(authority(folder), nodes_ca(folder), HOSTS, "carico", with_ca_key=False)
    assert noted["metadata"]["annotations"][EXPIRE] == "2030-02-10T00:00:00Z"


def test_the_cas_have_names_that_differ(folder):
    """TLS looks for the CA of a certificate by its name."""
    subjects = [
        x509.load_pem_x509_certificate((place / "ca.crt").read_bytes()).subject
        for place in (folder, nodes_ca(folder).folder)
    ]
    assert subjects[0] != subjects[1]


def test_secrets_restore_the_whole_folder(folder, tmp_path):
    packed = pack(authority(folder), nodes_ca(folder), SERVERS, "carico", with_ca_key=True)
    back = tmp_path / "back" / "certs"
    back.mkdir(parents=True)
    secrets = {each["metadata"]["name"]: each for each in packed if each["kind"] == "Secret"}
    unpack(secrets, back, nodes_ca(back).folder)
    assert content(back) == content(folder)


def test_the_key_of_the_ca_may_stay_off_the_cluster(folder):
    packed = pack(authority(folder), nodes_ca(folder), SERVERS, "carico", with_ca_key=False)
    assert "carico-ca" not in [each["metadata"]["name"] for each in packed if each["kind"] == "Secret"]
    assert "PRIVATE KEY" not in str(packed[0]), "all pods mount this object, so it holds the certificate alone"


@pytest.mark.parametrize("data", [{}, {"tls.crt": "!"}, {"tls.crt": "YQ=="}], ids=["nothing", "no base64", "no key"])
def test_an_invalid_secret_is_refused(tmp_path, data):
    with pytest.raises(InvalidInput, match="secret/carico-ca must hold a certificate and a key"):
        unpack({"carico-ca": {"data": data}}, tmp_path, tmp_path)


def test_server_hosts_are_its_service_and_every_replica():
    hosts = hosts_of(manifests(Choices()))
    assert hosts["aggregator"] == [
        "carico-aggregator",
        "carico-aggregator-0.carico-aggregator",
        "carico-aggregator-1.carico-aggregator",
    ]
    assert hosts["extender"][0] == "localhost"
