"""TLS of CARICO's HTTP servers; files that were replaced are loaded again."""

from __future__ import annotations

import logging
import ssl
from typing import Any

from carico.config import TlsFiles
from carico.logs import FewLines
from carico.rpc.tls import PemFiles

_log = logging.getLogger(__name__)


class ServerTls:
    """A server's side of TLS.

    Parameters
    ----------
    files : TlsFiles
    everybody : bool, optional
        Admit clients without a certificate; by default, clients must show one of the CA.

    Raises
    ------
    InvalidConfig
        If the files are not a certificate, its key and a CA.
    """

    def __init__(self, files: TlsFiles, everybody: bool = False) -> None:
        self._files = files
        self._everybody = everybody
        self._pem = PemFiles(files)
        self._context = self._load()
        self._again = False
        self._kept = FewLines(_log, logging.WARNING, "certificates not replaced, the old ones stay in force")

    def current(self) -> ssl.SSLContext:
        """Return the context of the present files, or of the last good ones if they are damaged."""
        if self._pem.changed() or self._again:
            try:
                self._context, self._again = self._load(), False
            except (OSError, ValueError) as error:  # replaced while being read: try again on the next connection
                self._again = True
                self._kept.add(str(error))
        return self._context

    def shake_hands(self, connection: ssl.SSLSocket) -> None:
        """Shake hands with a client, within the connection's time-out.

        Raises
        ------
        OSError
            If that fails, or the client resumes a session where it must show a certificate.
        """
        connection.do_handshake()
        # Without tickets, TLS 1.2 still has session numbers, and Python has no switch for them. Few clients use them.
        if connection.session_reused and not self._everybody:
            raise ssl.SSLError("a session was resumed, which shows no certificate: begin a new one")

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Whoever resumes a session shows no certificate, and the one that was shown may have expired.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_NONE if self._everybody else ssl.CERT_REQUIRED
        # An empty password: OpenSSL would ask for one on the terminal.
        context.load_cert_chain(self._files.certificate, self._files.key, password="")
        context.load_verify_locations(self._files.ca)
        return context


def names_of(certificate: dict[str, Any] | None) -> frozenset[str]:
    """Return the owner's names in a certificate, which is given as `SSLSocket.getpeercert` returns it.

    Only URIs and DNS names among the alternative names count: a CA need not check the common name, which is any text.
    """
    if not certificate:
        return frozenset()
    return frozenset(value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI"))
