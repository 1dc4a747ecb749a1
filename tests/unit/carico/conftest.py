"""A CA and its certificates, made once for all tests with TLS, and a fixture that restores logging."""

import logging
from datetime import UTC, datetime

import pytest

from carico.config import TlsFiles
from carico.deployment.authority import Authority


class Pki:
    """Certificates of one CA in a folder."""

    def __init__(self, folder):
        self.authority = Authority(folder, datetime.now(UTC), valid_days=1)
        self.authority.make_ca()
        self.folder = folder

    def files(self, name):
        return TlsFiles(*(str(self.folder / file) for file in (f"{name}.crt", f"{name}.key", "ca.crt")))

    def server(self, name, *hosts):
        if not (self.folder / f"server-{name}.crt").exists():
            self.authority.make_server(name, hosts or ["localhost", "127.0.0.1"])
        return self.files(f"server-{name}")

    def node(self, name):
        if not (self.folder / f"node-{name}.crt").exists():
            self.authority.make_node(name)
        return self.files(f"node-{name}")


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def other_pki(tmp_path_factory):
    return Pki(tmp_path_factory.mktemp("other-pki"))


@pytest.fixture
def logs_restored():
    """Restore the logger `carico` after a test that sets up logs as a process does."""
    logger = logging.getLogger("carico")
    handlers, propagate, level = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
