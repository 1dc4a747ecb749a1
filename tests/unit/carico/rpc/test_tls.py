"""Certificates of a running process: checked when it starts, replaced when the files are."""

import logging
import shutil
from pathlib import Path

import msgspec
import pytest

from carico.config import TlsFiles
from carico.errors import InvalidConfig, Unreachable
from carico.extender.report_server import CapacityServer
from carico.rpc.clients import ReportClient
from carico.rpc.tls import ClientTls, PemFiles, is_loopback
from carico.scheduling.report import CapacityReport
from tests.kits.blocking import Blocking

DEADLINE_S = 10.0


@pytest.fixture
def copy(tmp_path):
    """Put what `files` name into a folder of the test's own, over what is there."""

    def run(files, folder="mine"):
        (tmp_path / folder).mkdir(exist_ok=True)
        copied = []
        for name in ("certificate", "key", "ca"):
            source = getattr(files, name)
            file = tmp_path / folder / f"{name}.pem"
            draft = file.with_suffix(".draft")
            shutil.copyfile(source, draft)
            draft.replace(file)
            copied.append(str(file))
        return TlsFiles(*copied)

    return run


@pytest.mark.parametrize("field", ["certificate", "key", "ca"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: file.unlink(), "cannot read the TLS file .*No such file"),
        (lambda file: (file.unlink(), file.mkdir()), "cannot read the TLS file .*Is a directory"),
        (lambda file: file.write_text("rubbish"), "must (be|hold)"),
        (lambda file: file.write_bytes(b""), "must (be|hold)"),
        (lambda file: file.write_bytes(file.read_bytes()[:-60]), "must (be|hold)"),
    ],
    ids=["missing", "folder", "rubbish", "empty", "cut"],
)
def test_what_is_no_good_is_refused_at_the_start(copy, pki, field, spoil, message):
    files = copy(pki.node("node-a"))
    PemFiles(files)
    spoil(Path(getattr(files, field)))
    with pytest.raises(InvalidConfig, match=message):
        PemFiles(files)


def test_so_are_a_certificate_and_a_key_that_do_not_fit(pki):
    files = msgspec.structs.replace(pki.node("node-a"), key=pki.node("node-b").key)
    with pytest.raises(InvalidConfig, match="must be a PEM certificate and its key"):
        PemFiles(files)


def test_what_cannot_be_used_does_not_replace_what_is_in_force(copy, pki, caplog):
    files = copy(pki.node("node-a"))
    pem = PemFiles(files)
    before = pem.certificate, pem.key, pem.ca
    with caplog.at_level(logging.WARNING):
        Path(files.certificate).write_bytes(Path(pki.node("node-b").certificate).read_bytes())
        assert not pem.changed()
    assert "the old ones stay in force" in caplog.text
    Path(files.ca).unlink()
    assert not pem.changed()
    assert (pem.certificate, pem.key, pem.ca) == before
    copy(pki.node("node-b"))
    assert pem.changed()
    assert not pem.changed()
    assert pem.certificate != before[0]


def test_a_client_shows_the_same_until_the_files_change(copy, pki):
    files = copy(pki.node("node-a"))
    credentials = ClientTls(files)
    first = credentials.current()
    assert credentials.current() is first
    copy(pki.node("node-b"))
    assert credentials.current() is not first


def test_a_server_and_its_clients_move_to_another_ca_without_a_restart(copy, pki, other_pki, until):
    reported = []

    def take(report):
        reported.append(report.node)
        return {}

    server = CapacityServer(take, copy(pki.server("extender")), "localhost", 0)
    target = f"localhost:{server.port}"
    mine = ClientTls(copy(pki.node("node-a"), "client"))
    with Blocking(ReportClient(target, mine, DEADLINE_S)) as client:
        client.report(CapacityReport("node-a", 1.0, 1, 1.0, 1))
        copy(other_pki.server("extender"))
        # Who is connected stays so; who comes anew meets the new certificate.
        client.report(CapacityReport("node-a", 1.0, 1, 2.0, 2))
        until(lambda: len(reported) == 2)
        client.close()
        with pytest.raises(Unreachable, match="check `tls` on both sides: one CA"):
            client.report(CapacityReport("node-a", 1.0, 1, 3.0, 3))
        copy(other_pki.node("node-a"), "client")
        client.report(CapacityReport("node-a", 1.0, 1, 4.0, 4))
    server.close()
    assert reported == ["node-a"] * 3


def test_who_is_connected_is_looked_at_again(copy, pki, other_pki):
    server = CapacityServer(lambda report: {}, copy(pki.server("extender")), "localhost", 0, connection_age_s=0.05)
    theirs = ClientTls(pki.node("node-a"))
    with Blocking(ReportClient(f"localhost:{server.port}", theirs, DEADLINE_S)) as client:

        def heard():
            try:
                client.report(CapacityReport("node-a", 1.0, 1, 1.0, 1))
            except Unreachable:
                return False
            return True

        assert heard()
        while heard():
            pass  # until the first connection is ended
        assert any(heard() for _ in range(1000)), "who may makes another one"
        copy(other_pki.server("extender"))
        while any(heard() for _ in range(10)):
            pass
    server.close()


def test_a_password_is_never_asked_for(copy, pki):
    from cryptography.hazmat.primitives import serialization as form

    files = copy(pki.node("node-a"))
    key = form.load_pem_private_key(Path(files.key).read_bytes(), None)
    Path(files.key).write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"secret"))
    )
    with pytest.raises(InvalidConfig, match="without a password"):
        PemFiles(files)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "example.com", ""])
def test_anything_else_is_not(host):
    assert not is_loopback(host)
