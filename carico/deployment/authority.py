"""A certificate authority for CARICO's processes, in a folder; needs cryptography.

This is no public-key infrastructure: the CA's key lies in the same folder as the certificates. If you have a CA already
(cert-manager, or your company's), let it sign: `carico.rpc.identity` says which names a certificate needs.

A node's certificate allows client authentication only, and a server's certificate names the server's hosts, so no node
can pose as a server. Keys are elliptic-curve keys (P-256), readable only by their owner.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from carico.errors import InvalidInput
from carico.files import write_whole
from carico.rpc.identity import NODE, SERVER, node_name

CA = "ca"
CA_NAME = "CARICO CA"
NODES_CA_NAME = "CARICO nodes CA"
"""The name of a CA that is for nodes only, and so another one than the servers'."""
SIGNER = "carico.dev/node"
"""The name in the Kubernetes API of the signer that has that CA's key, see `carico.enrolment`."""
_EARLIER = timedelta(minutes=5)
"""How long before now a certificate's validity begins, because the clocks of machines differ."""


@dataclass(frozen=True)
class Authority:
    """Makes certificates in a folder that holds the CA's certificate and key as ``ca.crt`` and ``ca.key``.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    now : datetime
        With a time zone.
    valid_days : int
        How long certificates are valid.
    overwrite : bool
        Whether existing files may be replaced.

    Raises
    ------
    InvalidInput
        If the validity is not in [1, 36500] days.
    """

    folder: Path
    now: datetime
    valid_days: int = 365
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.valid_days <= 36_500:
            raise InvalidInput(f"a certificate is valid for 1 to 36500 days, got {self.valid_days}")

    def make_ca(self, name: str = CA_NAME) -> Path:
        """Make the CA and return the file of its certificate.

        Parameters
        ----------
        name : str, optional
            Its common name. Where two CAs are trusted, their names must differ: TLS looks for a CA by its name.

        Raises
        ------
        InvalidInput
            If there is a CA already and `overwrite` is false.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        named = _named(name)
        certificate = (
            self._builder(named, named, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return self._write(CA, certificate, key)

    def make_server(self, name: str, hosts: Sequence[str]) -> Path:
        """Make a server's certificate, ``server-NAME.crt`` and ``.key``.

        Parameters
        ----------
        name : str
            The aggregation server's must be ``aggregator``: only that name may reconcile with the server's replicas.
        hosts : sequence of str
            Host names and addresses under which clients reach the server.

        Raises
        ------
        InvalidInput
            If a name is invalid, there is no CA, or a file exists and `overwrite` is false.
        """
        if not hosts:
            raise InvalidInput(f"the server {name} needs a host under which clients reach it: give --host")
        names = _server_names(name, hosts)
        # A server is also a client of its replicas.
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(f"server-{name}", name, names, usages)

    def make_node(self, name: str) -> Path:
        """Make a node's certificate, ``node-NAME.crt`` and ``.key``; raises as `make_server` does."""
        return self._issue(f"node-{name}", name, _node_names(name), [ExtendedKeyUsageOID.CLIENT_AUTH])

    def sign_node(self, name: str, key: ec.EllipticCurvePublicKey, lasts: timedelta) -> bytes:
        """Return a certificate for a node's own key, as PEM; nothing is written.

        Parameters
        ----------
        name : str
            The node's.
        key : EllipticCurvePublicKey
        lasts : timedelta
            How long the certificate is valid, unless the CA expires before.

        Raises
        ------
        InvalidInput
            If the name is invalid, there is no CA, or the CA has expired.
        """
        ca, ca_key = self._ca()
        until = min(self.now + lasts, ca.not_valid_after_utc)
        if until <= self.now:
            raise InvalidInput(f"the CA in {self.folder} has expired at {ca.not_valid_after_utc}: renew it")
        return _pem(self._signed(name, _node_names(name), [ExtendedKeyUsageOID.CLIENT_AUTH], key, until, ca, ca_key))

    def keeps_server(self, name: str, hosts: Sequence[str]) -> bool:
        """Whether this CA's certificate for exactly these hosts exists, with a third of its time left."""
        return self._keeps(self.folder / f"server-{name}.crt", _server_names(name, hosts))

    def keeps_ca(self) -> bool:
        """Whether the CA has a third of its time left.

        Raises
        ------
        InvalidInput
            If there is no CA.
        """
        return self._lasts(self._ca()[0])

    def may_renew_ca(self) -> bool:
        """Whether the CA has issued itself, and no other CA has to renew it."""
        certificate = self._ca()[0]
        return certificate.subject == certificate.issuer

    def ca_digest(self) -> str:
        """Return a digest of the CA's public key, which renewals do not change."""
        return key_digest(_pem(self._ca()[0]))

    def validity(self, certificate: Path) -> tuple[datetime, datetime]:
        """Return the beginning of a certificate's validity, a few minutes before it was made, and the end.

        Raises
        ------
        InvalidInput
            If there is no such certificate.
        """
        loaded = _certificate(certificate)
        return loaded.not_valid_before_utc, loaded.not_valid_after_utc

    def renew(self, certificate: Path) -> Path:
        """Replace a certificate of this CA by one with the same content and key that is valid from now on.

        Only one file changes, so a process never reads a certificate and a key that do not match.

        Raises
        ------
        InvalidInput
            If there is no such certificate, or another CA issued it. A CA that has issued itself can be renewed, too:
            what it has issued remains valid.
        """
        ca, ca_key = self._ca()
        old = _certificate(certificate)
        try:
            old.verify_directly_issued_by(ca)
        except Exception as error:
            raise InvalidInput(f"{certificate} was not issued by {self.folder / 'ca.crt'}: make a new one") from error
        builder = self._builder(old.subject, ca.subject, old.public_key())
        for extension in old.extensions:
            builder = builder.add_extension(extension.value, extension.critical)
        write_whole(certificate, _pem(builder.sign(ca_key, hashes.SHA256())), 0o644)
        return certificate

    def _keeps(self, file: Path, names: Sequence[x509.GeneralName]) -> bool:
        if not (file.exists() and file.with_suffix(".key").exists()):
            return False
        certificate = _certificate(file)
        try:
            certificate.verify_directly_issued_by(self._ca()[0])
            present = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, InvalidSignature, TypeError, ValueError):
            return False
        return set(present) == set(names) and self._lasts(certificate)

    def _lasts(self, certificate: x509.Certificate) -> bool:
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        return begins <= self.now <= ends - (ends - begins) / 3

    def _issue(
        self, file: str, name: str, names: Sequence[x509.GeneralName], usages: Sequence[x509.ObjectIdentifier]
    ) -> Path:
        ca, ca_key = self._ca()
        key = ec.generate_private_key(ec.SECP256R1())
        until = self.now + timedelta(days=self.valid_days)
        return self._write(file, self._signed(name, names, usages, key.public_key(), until, ca, ca_key), key)

    def _signed(
        self,
        name: str,
        names: Sequence[x509.GeneralName],
        usages: Sequence[x509.ObjectIdentifier],
        key: ec.EllipticCurvePublicKey,
        until: datetime,
        ca: x509.Certificate,
        ca_key: ec.EllipticCurvePrivateKey,
    ) -> x509.Certificate:
        return (
            self._builder(_named(name), ca.subject, key, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            # RFC 5280 demands both identifiers, and Python from 3.13 on refuses certificates without them.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
            .sign(ca_key, hashes.SHA256())
        )

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: object, until: datetime | None = None
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)  # type: ignore[arg-type]  # our EC key, or a certificate's key
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - _EARLIER)
            .not_valid_after(until or self.now + timedelta(days=self.valid_days))
        )

    def _ca(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        certificate, key = self.folder / f"{CA}.crt", self.folder / f"{CA}.key"
        if not (certificate.is_file() and key.is_file()):
            raise InvalidInput(f"there is no CA in {self.folder}: make one with --ca first")
        try:
            loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{key} must be a PEM key without a password: {error}") from error
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise InvalidInput(f"{key} must be an elliptic-curve key, as --ca makes it")
        return _certificate(certificate), loaded

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Path:
        files = [self.folder / f"{name}.key", self.folder / f"{name}.crt"]
        existing = [str(file) for file in files if file.exists()]
        if existing and not self.overwrite:
            raise InvalidInput(f"{' and '.join(existing)} would be overwritten: give --force, or another --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_whole(files[0], secret, 0o600)
        write_whole(files[1], _pem(certificate), 0o644)
        return files[1]


def key_digest(pem: bytes) -> str:
    """Return a digest of a certificate's public key, which renewals do not change.

    Parameters
    ----------
    pem : bytes
        The certificate; of several, the first one counts.

    Raises
    ------
    ValueError
        If it is none, or one with a key of an unknown kind.
    """
    try:
        key = x509.load_pem_x509_certificate(pem).public_key()
    except (UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ValueError(str(error)) from error
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()[:16]


def _server_names(name: str, hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [x509.UniformResourceIdentifier(SERVER + node_name(name)), *map(_host, hosts)]


def _node_names(name: str) -> list[x509.GeneralName]:
    return [x509.UniformResourceIdentifier(NODE + node_name(name))]


def _named(name: str) -> x509.Name:
    # A common name holds 64 characters; the alternative names hold the whole name.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(node_name(host.lower()))
    except InvalidInput as error:
        raise InvalidInput(
            f"a host is an IP address or a DNS name (letters, digits, '-' and '.'), got {host[:300]!r}: correct --host"
        ) from error


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{file} must be a PEM certificate: {error}") from error


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
