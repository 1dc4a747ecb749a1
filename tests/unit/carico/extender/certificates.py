"""Certificates for tests of TLS: what `carico certs` makes, as the files of a process."""

from datetime import UTC, datetime

from carico.config import TlsFiles
from carico.deployment.authority import Authority


class Certificates:
    """A CA in a folder, and what it signs."""

    def __init__(self, folder):
        self._folder = folder
        self._authority = Authority(folder, datetime.now(UTC), valid_days=1, overwrite=True)
        self._authority.make_ca()

    def server(self, name, host="127.0.0.1"):
        """Make the certificate of a server on `host`; its URI is ``carico:server:NAME``."""
        return self._files(self._authority.make_server(name, [host]))

    def node(self, name):
        """Make the certificate of a node; its URI is ``carico:node:NAME``."""
        return self._files(self._authority.make_node(name))

    def _files(self, certificate):
        return TlsFiles(str(certificate), str(certificate.with_suffix(".key")), str(self._folder / "ca.crt"))
