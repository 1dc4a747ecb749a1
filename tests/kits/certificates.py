"""Certificates for tests of TLS: what `carico certs` makes, as the files of a process."""

from datetime import UTC, datetime

from carico.config import TlsFiles
from carico.deployment.authority import CA_NAME, Authority


class Certificates:
    """A CA in a folder, and what it signs, each certificate once."""

    def __init__(self, folder, name=CA_NAME):
        self._folder = folder
        self.ca = folder / "ca.crt"
        self._authority = Authority(folder, datetime.now(UTC), valid_days=90, overwrite=True)
        self._authority.make_ca(name)

    def server(self, name, *hosts):
        """Return the certificate of a server; its URI is ``carico:server:NAME``."""
        if not (self._folder / f"server-{name}.crt").exists():
            self._authority.make_server(name, hosts or ["localhost", "127.0.0.1"])
        return self._files(f"server-{name}")

    def node(self, name):
        """Return the certificate of a node; its URI is ``carico:node:NAME``."""
        if not (self._folder / f"node-{name}.crt").exists():
            self._authority.make_node(name)
        return self._files(f"node-{name}")

    def _files(self, name):
        return TlsFiles(*(str(self._folder / file) for file in (f"{name}.crt", f"{name}.key", "ca.crt")))
