"""Certificates for trying CARICO out: what they allow, and that nothing is overwritten unasked."""

import re
import ssl
import stat
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from carico.cli import main
from carico.config import TlsFiles
from carico.deployment.authority import Authority
from carico.errors import InvalidInput
from carico.rpc.validity import valid_between

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "certs"
    Authority(folder, NOW).make_ca()
    return folder


def loaded(file):
    return x509.load_pem_x509_certificate(file.read_bytes())


def names(certificate):
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in found]


class TestMade:
    def test_a_server_certificate_names_its_hosts(self, folder):
        made = loaded(Authority(folder, NOW).make_server("aggregator", ["aggregator.carico.svc", "10.0.0.1", "::1"]))
        assert names(made) == ["carico:server:aggregator", "aggregator.carico.svc", "10.0.0.1", "::1"]
        made.verify_directly_issued_by(loaded(folder / "ca.crt"))

    def test_a_node_certificate_is_for_clients_only(self, folder):
        made = loaded(Authority(folder, NOW).make_node("ip-10-0-0-1." + "a" * 60))
        assert names(made) == ["carico:node:ip-10-0-0-1." + "a" * 60]
        usages = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [x509.ExtendedKeyUsageOID.CLIENT_AUTH]
        assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    def test_strict_clients_accept_what_the_ca_has_issued(self, folder):
        authority = Authority(folder, datetime.now(UTC), overwrite=True)
        authority.make_ca()
        server = authority.make_server("aggregator", ["aggregator.carico.svc"])
        node = authority.make_node("node-1")
        requester, answerer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for context, certificate in ((requester, node), (answerer, server)):
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
            context.load_verify_locations(folder / "ca.crt")
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            requester.wrap_bio(to_client, to_server, server_hostname="aggregator.carico.svc"),
            answerer.wrap_bio(to_server, to_client, server_side=True),
        ]
        for _ in range(3):
            for end in ends:
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        assert all(end.getpeercert() for end in ends)

    def test_only_the_owner_can_read_keys(self, folder):
        Authority(folder, NOW).make_node("node-1")
        keys = list(folder.glob("*.key"))
        assert len(keys) == 2
        assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}

    def test_certificates_are_valid_from_shortly_before_now_for_the_given_days(self, folder):
        made = loaded(Authority(folder, NOW, valid_days=7).make_node("node-1"))
        assert made.not_valid_before_utc == NOW - timedelta(minutes=5)
        assert made.not_valid_after_utc == NOW + timedelta(days=7)

    def test_a_node_or_server_may_be_named_ca(self, folder):
        authority = Authority(folder, NOW)
        before = (folder / "ca.crt").read_bytes()
        assert authority.make_node("ca").name == "node-ca.crt"
        assert authority.make_server("ca", ["localhost"]).name == "server-ca.crt"
        assert (folder / "ca.crt").read_bytes() == before


class TestOverwriting:
    def test_overwriting_is_refused_and_changes_nothing(self, folder):
        authority = Authority(folder, NOW)
        authority.make_node("node-1")
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        for again in (authority.make_ca, lambda: authority.make_node("node-1")):
            with pytest.raises(InvalidInput, match="would be overwritten: give --force"):
                again()
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before

    def test_overwriting_is_possible_on_request(self, folder):
        before = (folder / "ca.key").read_bytes()
        Authority(folder, NOW, overwrite=True).make_ca()
        assert (folder / "ca.key").read_bytes() != before


class TestRenewed:
    def test_a_renewed_certificate_has_the_same_content_and_key(self, folder):
        file = Authority(folder, NOW).make_server("aggregator", ["localhost"])
        old, key = loaded(file), file.with_suffix(".key").read_bytes()
        later = NOW + timedelta(days=300)
        Authority(folder, later).renew(file)
        new = loaded(file)
        assert new.not_valid_after_utc == later + timedelta(days=365)
        assert [extension.value for extension in new.extensions] == [extension.value for extension in old.extensions]
        assert (new.subject, new.public_key()) == (old.subject, old.public_key())
        assert file.with_suffix(".key").read_bytes() == key
        new.verify_directly_issued_by(loaded(folder / "ca.crt"))

    def test_a_certificate_of_another_ca_is_not_renewed(self, folder, tmp_path):
        other = Authority(tmp_path / "other", NOW)
        other.make_ca()
        foreign = other.make_node("node-1")
        before = foreign.read_bytes()
        with pytest.raises(InvalidInput, match="was not issued by"):
            Authority(folder, NOW).renew(foreign)
        assert foreign.read_bytes() == before

    def test_the_ca_can_be_renewed_and_what_it_has_issued_remains_valid(self, folder):
        later = Authority(folder, NOW + timedelta(days=300))
        key, digest = (folder / "ca.key").read_bytes(), later.ca_digest()
        issued = Authority(folder, NOW, overwrite=True).make_node("node-z")
        assert not later.keeps_ca()
        later.renew(folder / "ca.crt")
        assert later.keeps_ca()
        assert ((folder / "ca.key").read_bytes(), later.ca_digest()) == (key, digest)
        renewed = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        x509.load_pem_x509_certificate(issued.read_bytes()).verify_directly_issued_by(renewed)
        assert renewed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        files = TlsFiles(str(issued), str(issued.with_suffix(".key")), str(folder / "ca.crt"))
        ends = {of: end for of, (_, end) in valid_between(files).items()}
        assert ends["ca"] == (NOW + timedelta(days=665)).timestamp()


@pytest.mark.parametrize("days", [0, 36_501])
def test_an_invalid_validity_is_refused(tmp_path, days):
    with pytest.raises(InvalidInput, match="1 to 36500 days"):
        Authority(tmp_path, NOW, days)


class TestCommand:
    def test_a_ca_may_have_another_name(self, tmp_path):
        assert main(["certs", "--out", str(tmp_path), "--ca", "--name", "Of nodes"]) == 0
        assert loaded(tmp_path / "ca.crt").subject.rfc4514_string() == "CN=Of nodes"

    def test_makes_all_certificates_of_a_cluster(self, tmp_path, capsys):
        out = ["certs", "--out", str(tmp_path / "certs")]
        assert main([*out, "--ca"]) == 0
        assert main([*out, "--server", "aggregator", "--host", "localhost", "--host", "10.0.0.1"]) == 0
        assert main([*out, "--node", "node-1", "--days", "30"]) == 0
        assert main([*out, "--renew", str(tmp_path / "certs" / "node-node-1.crt")]) == 0
        assert "server-aggregator.crt" in capsys.readouterr().out
        made = loaded(tmp_path / "certs" / "node-node-1.crt")
        assert made.not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--node", "node-1"], "there is no CA in .*: make one with --ca first"),
            (["--node", "Node_1"], "DNS-1123"),
            (["--server", "aggregator"], "give --host"),
            (["--server", "aggregator", "--host", "a b"], "a host is an IP address or a DNS name"),
            (["--ca", "--host", "localhost"], "--host is for --server"),
            (["--ca", "--days", "0"], "1 to 36500 days"),
            (["--node", "node-a", "--name", "x"], "--name is for --ca"),
            (["--ca", "--name", ""], "1 to 64 letters"),
            (["--ca", "--name", 65 * "x"], "1 to 64 letters"),
            (["--renew", "nothing.crt"], "there is no CA"),
        ],
    )
    def test_says_what_is_wrong(self, tmp_path, capsys, arguments, message):
        assert main(["certs", "--out", str(tmp_path), *arguments]) == 1
        assert re.search(message, capsys.readouterr().err)
        assert list(tmp_path.iterdir()) == []

    def test_without_the_extra_the_error_says_what_to_install(self, tmp_path, monkeypatch, capsys):
        monkeypatch.delitem(sys.modules, "carico.deployment.authority")
        monkeypatch.setitem(sys.modules, "cryptography", None)
        assert main(["certs", "--out", str(tmp_path), "--ca"]) == 4
        error = capsys.readouterr().err
        assert "cryptography" in error
        assert "pip install 'carico-testbed[scheduler]'" in error
