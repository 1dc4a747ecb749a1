"""Security of every gRPC connection: both sides show a certificate of the same CA, or the connection is on loopback.

Nodes may have a CA of their own (`nodes_ca`), whose key is on the cluster. It is trusted only on ports that nodes call,
and there beside the other CA; clients never trust it. So TLS itself keeps its certificates from passing for a server's.

Certificates may be replaced while a process runs: both sides check their files on every new connection, and a server
ends connections after about an hour. Files that are damaged or only partly replaced are not loaded, and the previous
certificates stay in force.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from pathlib import Path
from typing import cast

from carico.config import TlsFiles
from carico.errors import InvalidConfig
from carico.logs import FewLines

_log = logging.getLogger(__name__)

Parts = tuple[tuple[tuple[str, str], ...], ...]
"""A name in a certificate, as Python shows it."""
Signature = tuple[tuple[int, int, int], ...]


class PemFiles:
    """The PEM files of a process, read again when they have changed.

    Parameters
    ----------
    files : TlsFiles

    Raises
    ------
    InvalidConfig
        If a file cannot be read or is not PEM, or the key is not the certificate's; the message names the file.

    Attributes
    ----------
    certificate, key, ca, callers_ca : bytes
        As PEM; `callers_ca` holds all CAs that are trusted where nodes call.
    client : ssl.SSLContext
        A client's side, which trusts `ca` only.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._paths = _paths(files)
        self._seen = signature_of(self._files)
        self._kept = FewLines(_log, logging.WARNING, "certificates not replaced, the old ones stay in force")
        try:
            self.certificate, self.key, self.ca, self.callers_ca, self.client = self._read()
        except OSError as error:
            raise InvalidConfig(f"cannot read the TLS file {error.filename}: {error.strerror}") from error

    def changed(self) -> bool:
        """Read the files if they have changed; return whether there is anything new. Unusable files are logged."""
        signature = signature_of(self._files)
        if signature == self._seen or not signature:
            return False
        self._seen = signature
        try:
            content = self._read()
        except (InvalidConfig, OSError) as error:
            if isinstance(error, OSError):  # replaced once more, or too many files are open: try again next time
                self._seen = ()
            self._kept.add(str(error))
            return False
        if signature_of(self._files) != signature:  # replaced while being read: try again next time
            self._seen = ()
            return False
        self.certificate, self.key, self.ca, self.callers_ca, self.client = content
        _log.info("certificates replaced", extra={"certificate": str(self._paths[0])})
        return True

    def _read(self) -> tuple[bytes, bytes, bytes, bytes, ssl.SSLContext]:
        """Read the files and let OpenSSL check them: gRPC would only refuse every connection."""
        certificate, key, ca, *nodes_ca = self._paths
        pem = [path.read_bytes() for path in self._paths]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False
        # As in gRPC's servers, an intermediate certificate may serve as the CA.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            # An empty password: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise InvalidConfig(
                f"{certificate} and {key} must be a PEM certificate and its key without a password: {error}"
            ) from error
        names = _trust(context, ca)
        for path in nodes_ca:
            if same := names & _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), path):
                raise InvalidConfig(
                    f"{ca} and {path} hold CAs of the same name, {min(same)}: TLS looks for a CA by its name, so give "
                    f"one another name (`carico certs --ca --name NAME`)"
                )
        context.set_alpn_protocols(["h2"])
        return pem[0], pem[1], pem[2], b"\n".join(pem[2:]), context


def signature_of(files: TlsFiles) -> Signature:
    """Return a value that changes when a file is replaced; empty while a file is missing."""
    try:
        found = [path.stat() for path in _paths(files)]
    except OSError:
        return ()
    return tuple((status.st_ino, status.st_mtime_ns, status.st_size) for status in found)


def _paths(files: TlsFiles) -> list[Path]:
    """Return the certificate, the key, the CA and, if there is one, the CA of nodes."""
    named = [files.certificate, files.key, files.ca]
    return [Path(file) for file in (named if files.nodes_ca is None else [*named, files.nodes_ca])]


def _trust(context: ssl.SSLContext, ca: Path) -> set[str]:
    """Trust a file's CAs, and return their names."""
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise InvalidConfig(f"{ca} must hold the certificate of a CA, as PEM: {error}") from error
    return {
        ", ".join("=".join(part) for parts in cast(Parts, each["subject"]) for part in parts)
        for each in context.get_ca_certs()
    }


class ClientTls:
    """A client's side: shows its certificate, and requires one of the same CA for the host that it calls."""

    def __init__(self, files: TlsFiles) -> None:
        self._pem = PemFiles(files)

    def current(self) -> ssl.SSLContext:
        """Return the context of the files as they are now: the same object as long as the files have not changed."""
        self._pem.changed()
        return self._pem.client


def require_loopback(host: str, allowed: bool) -> None:
    """Check that plain text may be used: only on a loopback address, and only if it was asked for.

    Raises
    ------
    InvalidConfig
        If `host` is not a loopback address, or plain text was not asked for.
    """
    if not allowed:
        raise InvalidConfig(
            "without `tls` (certificate, key and ca) nothing is encrypted and anybody may call: give the files "
            "(`carico certs` makes some), or set `insecure_loopback: true` to try it out on one machine"
        )
    if not is_loopback(host):
        raise InvalidConfig(
            f"`insecure_loopback` is for 127.0.0.1, ::1 or localhost, got {host}: give `tls` for others"
        )


def is_loopback(host: str) -> bool:
    """Whether a host, a name or an address with or without brackets, is a loopback one."""
    name = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
