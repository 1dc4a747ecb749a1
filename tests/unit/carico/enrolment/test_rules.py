"""Which requests are signed, whatever they say, and what the certificates say then."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import example, given
from hypothesis import strategies as st

from carico.deployment.authority import NODES_CA_NAME, Authority
from carico.enrolment.rules import MOST_BYTES, NODE_OF_TOKEN, granted
from carico.errors import InvalidInput, NotSigned
from carico.rpc.identity import node_name
from tests.kits.signing_requests import AGENT, pkcs10, spec

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LIFE = timedelta(days=7)
KEY = ec.generate_private_key(ec.SECP256R1())
GOOD = pkcs10(KEY)
DER = x509.load_pem_x509_csr(GOOD).public_bytes(Encoding.DER)


def refused(asked, reason, message=None):
    with pytest.raises(NotSigned, match=message) as caught:
        granted(asked, "carico", LIFE)
    assert caught.value.reason == reason


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("nodes"), NOW, 365)
    authority.make_ca(NODES_CA_NAME)
    return authority


class TestGranted:
    def test_an_agent_gets_its_own_node_and_key(self):
        given = granted(spec(GOOD, node="node-b"), "carico", LIFE)
        assert (given.node, given.key, given.life) == ("node-b", KEY.public_key(), LIFE)

    @pytest.mark.parametrize("asked_s", [599, 0, -1])
    def test_but_not_for_less_than_ten_minutes(self, asked_s):
        refused(spec(GOOD, expirationSeconds=asked_s), "TooShort", "at least 600 s")

    @pytest.mark.parametrize(
        ("asked_s", "got"), [(600, 600), (10**30, 604_800), (10**9, LIFE.total_seconds()), (None, 604_800)]
    )
    def test_a_shorter_life_may_be_asked_for_and_no_longer_one(self, asked_s, got):
        assert granted(spec(GOOD, expirationSeconds=asked_s), "carico", LIFE).life.total_seconds() == got

    def test_in_its_own_namespace(self):
        account = "system:serviceaccount:batch:carico-agent"
        assert granted(spec(GOOD, username=account), "batch", LIFE).node == "node-a"
        refused(spec(GOOD, username=account), "OtherAccount", "system:serviceaccount:carico:carico-agent may ask")


class TestRefused:
    @pytest.mark.parametrize(
        "who",
        [
            None,
            "",
            "kubernetes-admin",
            "system:node:node-a",
            "system:serviceaccount:other:carico-agent",
            "system:serviceaccount:carico:carico-extender",
            f"{AGENT} ",
            f"{AGENT}\n",
            AGENT.upper(),
            "carico-agent",
        ],
    )
    def test_other_accounts(self, who):
        refused(spec(GOOD, username=who), "OtherAccount")

    @pytest.mark.parametrize("extra", [None, {}, {NODE_OF_TOKEN: []}, {NODE_OF_TOKEN.upper(): ["node-a"]}])
    def test_tokens_that_name_no_node_with_what_is_needed(self, extra):
        refused(spec(GOOD, extra=extra), "NoNode", r"Kubernetes 1\.30 or later .*ServiceAccountTokenPodNodeInfo")

    def test_tokens_that_name_several(self):
        refused(spec(GOOD, extra={NODE_OF_TOKEN: ["node-a", "node-b"]}), "SeveralNodes", "this one names 2")
        refused(spec(GOOD, extra={NODE_OF_TOKEN: ["node-a", "node-a"]}), "SeveralNodes")

    @pytest.mark.parametrize("node", ["", "Node", "a,URI:carico:server:aggregator", "a\0b", "*", "a" * 254, "a..b"])
    def test_what_is_no_nodes_name(self, node):
        refused(spec(GOOD, node=node), "InvalidNode")

    @pytest.mark.parametrize(
        "usages",
        [
            None,
            [],
            ["digital signature"],
            ["server auth"],
            ["client auth", "server auth"],
            ["client auth", "cert sign"],
        ],
    )
    def test_other_usages(self, usages):
        refused(spec(GOOD, usages=usages), "OtherUsages", "a node's certificate is for 'client auth'")

    def test_other_signers(self):
        refused(spec(GOOD, signerName="kubernetes.io/kube-apiserver-client"), "OtherSigner")

    @pytest.mark.parametrize(
        ("key", "algorithm"),
        [
            (rsa.generate_private_key(65537, 1024), None),
            (ec.generate_private_key(ec.SECP384R1()), None),
            (ec.generate_private_key(ec.SECP256K1()), None),
            (ed25519.Ed25519PrivateKey.generate(), "none"),
        ],
        ids=["rsa", "p-384", "secp256k1", "ed25519"],
    )
    def test_other_keys(self, key, algorithm):
        request = pkcs10(key, algorithm=None) if algorithm == "none" else pkcs10(key)
        refused(spec(request), "OtherKey", "P-256")

    def test_the_key_of_somebody_else(self):
        """A public key alone is anybody's: its owner must have signed the request."""
        der = bytearray(DER)
        der[-1] ^= 1
        pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bytes(der))
        refused(spec(pem + b"-----END CERTIFICATE REQUEST-----\n"), "InvalidRequest")

    @pytest.mark.parametrize(
        "request_",
        [None, "", "!", base64.b64encode(b"rubbish").decode(), base64.b64encode(GOOD[:-80]).decode()],
        ids=["none", "empty", "no base64", "no PEM", "cut"],
    )
    def test_what_is_no_request(self, request_):
        refused(spec(b"") | {"request": request_}, "InvalidRequest")

    def test_requests_that_are_too_long(self):
        long = pkcs10(KEY, extensions=[x509.SubjectAlternativeName([x509.DNSName("a" * 60) for _ in range(100)])])
        assert len(long) > MOST_BYTES
        refused(spec(long), "InvalidRequest", "at most 4096 bytes, got")


TEXTS = st.text(max_size=40) | st.sampled_from(["", "node-a", "node-b", AGENT, NODE_OF_TOKEN])


@given(
    signer=st.sampled_from(["carico.dev/node", "carico.dev/nodes"]) | TEXTS,
    usages=st.lists(st.sampled_from(["client auth", "digital signature", "server auth"]) | TEXTS, max_size=3),
    username=st.just(AGENT) | TEXTS,
    extra=st.none() | st.dictionaries(st.just(NODE_OF_TOKEN) | TEXTS, st.lists(TEXTS, max_size=2), max_size=3),
    request=st.just(base64.b64encode(GOOD).decode())
    | TEXTS
    | st.binary(max_size=200).map(base64.b64encode).map(bytes.decode),
    seconds=st.none() | st.integers(-(2**31), 2**31 - 1),
)
def test_whatever_is_asked_only_the_node_of_an_agents_token_is_granted(
    signer, usages, username, extra, request, seconds
):
    asked = {
        "signerName": signer,
        "usages": usages,
        "username": username,
        "extra": extra,
        "request": request,
        "expirationSeconds": seconds,
    }
    try:
        given = granted(asked, "carico", LIFE)
    except NotSigned:
        return
    assert (signer, username) == ("carico.dev/node", AGENT)
    assert extra[NODE_OF_TOKEN] == [given.node]
    assert node_name(given.node) == given.node
    assert set(usages) <= {"client auth", "digital signature"}
    assert given.key == KEY.public_key()
    assert timedelta(minutes=10) <= given.life <= LIFE


@given(
    st.lists(st.tuples(st.integers(0, len(DER) - 1), st.integers(0, 255)), min_size=1, max_size=3), st.integers(0, 9)
)
@example([(DER.index(bytes([2, 1, 0])) + 2, 1)], 0)  # another version
def test_a_damaged_request_is_refused_or_is_for_a_key_that_has_signed_it(changes, cut):
    der = bytearray(DER)
    for position, byte in changes:
        der[position] = byte
    encoded = base64.encodebytes(bytes(der[: len(der) - cut]))
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + encoded + b"-----END CERTIFICATE REQUEST-----\n"
    try:
        given_ = granted(spec(pem), "carico", LIFE)
    except NotSigned as why:
        assert why.reason in ("InvalidRequest", "OtherKey")  # noqa: PT017
        return
    assert given_.key == KEY.public_key()
    assert bytes(der) == DER


NAMES = st.lists(
    st.sampled_from(
        [
            x509.UniformResourceIdentifier("carico:server:aggregator"),
            x509.UniformResourceIdentifier("carico:node:node-b"),
            x509.DNSName("carico-scheduler-0.carico-scheduler"),
            x509.DNSName("localhost"),
            x509.RFC822Name("root@example.com"),
        ]
    ),
    min_size=1,
    max_size=4,
)


@given(
    common_name=st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=60),
    names=NAMES,
    is_ca=st.booleans(),
    server=st.booleans(),
)
def test_nothing_of_the_requests_own_words_is_in_the_certificate(authority, common_name, names, is_ca, server):
    extensions = [
        x509.SubjectAlternativeName(names),
        x509.BasicConstraints(ca=is_ca, path_length=None),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CODE_SIGNING]),
    ]
    given_ = granted(spec(pkcs10(KEY, common_name, extensions)), "carico", LIFE)
    made = x509.load_pem_x509_certificate(authority.sign_node(given_.node, given_.key, given_.life))
    assert made.subject.rfc4514_string() == "CN=node-a"
    assert made.public_key() == KEY.public_key()
    assert [extension.oid._name for extension in made.extensions] == [
        "basicConstraints",
        "keyUsage",
        "extendedKeyUsage",
        "subjectAltName",
        "subjectKeyIdentifier",
        "authorityKeyIdentifier",
    ]
    found = {extension.oid._name: extension.value for extension in made.extensions}
    assert list(found["subjectAltName"]) == [x509.UniformResourceIdentifier("carico:node:node-a")]
    assert list(found["extendedKeyUsage"]) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert found["basicConstraints"].ca is False
    assert not found["keyUsage"].key_cert_sign
    made.verify_directly_issued_by(x509.load_pem_x509_certificate((authority.folder / "ca.crt").read_bytes()))
    assert made.not_valid_after_utc == NOW + LIFE


def test_no_certificate_outlives_its_ca(authority):
    late = Authority(authority.folder, NOW + timedelta(days=363))
    made = x509.load_pem_x509_certificate(late.sign_node("node-a", KEY.public_key(), LIFE))
    assert made.not_valid_after_utc == NOW + timedelta(days=365)
    with pytest.raises(InvalidInput, match="has expired"):
        Authority(authority.folder, NOW + timedelta(days=366)).sign_node("node-a", KEY.public_key(), LIFE)
