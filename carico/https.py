"""TLS of CARICO's HTTP servers: both sides show a certificate of the same CA; files that were replaced are taken up."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

from carico.config import TlsFiles
from carico.errors import InvalidConfig

_log = logging.getLogger(__name__)


class ServerTls:
    """A server's side of TLS; a client must show a certificate of the CA.

    Parameters
    ----------
    files : TlsFiles

    Raises
    ------
    InvalidConfig
        If the files are no certificate, its key and a CA.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._signature()
        self._context = self._load()

    def current(self) -> ssl.SSLContext:
        """Return the context of the files as they are now; of spoilt ones, as they were."""
        seen = self._signature()
        if seen != self._seen:
            self._seen = seen
            try:
                self._context = self._load()
                _log.info("certificates replaced", extra={"certificate": self._files.certificate})
            except InvalidConfig as error:
                _log.warning("certificates not replaced, the old ones stay in force: %s", error)
        return self._context

    def _signature(self) -> tuple[tuple[int, int, int], ...]:
        paths = map(Path, (self._files.certificate, self._files.key, self._files.ca))
        try:
            return tuple((s.st_ino, s.st_mtime_ns, s.st_size) for s in map(Path.stat, paths))
        except OSError:
            return ()  # while being replaced: looked at again on the next connection

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            # An empty password, so that nobody is asked for one on the terminal.
            context.load_cert_chain(self._files.certificate, self._files.key, password="")
            context.load_verify_locations(self._files.ca)
        except (OSError, ValueError) as error:
            raise InvalidConfig(
                f"tls: a PEM certificate, its key without a password and a CA are needed, got "
                f"{self._files.certificate}, {self._files.key}, {self._files.ca}: {error}"
            ) from error
        return context


def names_of(certificate: dict[str, Any] | None) -> frozenset[str]:
    """Return all names that a certificate, as `SSLSocket.getpeercert` gives it, has for its owner."""
    if not certificate:
        return frozenset()
    subject = {value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"}
    return frozenset(
        subject | {value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI")}
    )
