"""Gets a certificate for this node: a key, a CertificateSigningRequest, and the signer's answer.

The key is made here, and lies beside the certificate, in a folder in memory that ends with the pod. The name of a
request is a digest of its key. So an attempt that follows a failed one continues with the same key and request: however
often a node tries, one of its requests waits.
"""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from carico.backoff import Backoff
from carico.clock import Clock
from carico.deployment.authority import SIGNER
from carico.enrolment.rules import USAGES
from carico.errors import CertificateRefused, InvalidInput, KubeError, KubeRefused, NotReady
from carico.files import write_whole
from carico.rpc.identity import NODE, node_name

WAIT_S = 60.0
"""How long an attempt waits for the signer's answer, seconds."""
RENEW_AFTER = 2 / 3
"""The share of its life after which a certificate is renewed; a random tenth is taken off."""
NAME = "carico-node-"
"""How the names of requests begin."""
_POLL = Backoff(first_s=0.5, longest_s=5.0)
_KEY_BEGINS = b"-----BEGIN PRIVATE KEY-----"
_MISSING, _THERE = 404, 409


class SigningRequests(Protocol):
    """The part of the Kubernetes API that is needed (`carico.kube.client.KubeClient`)."""

    def signing_request(self, name: str) -> dict[str, Any]:
        """Return a request."""
        ...

    def create_signing_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Create a request."""
        ...


@dataclass(frozen=True)
class Requester:
    """Keeps one file with a node's certificate and key.

    Parameters
    ----------
    node : str
        The node's name, which the certificate must be for.
    file : Path
        Gets the certificate and the key, as PEM, for its owner alone. A new key waits beside it for its certificate.
    ca : Path
        The CA of nodes, which must have signed the certificate.
    clock : Clock
    rng : random.Random
        Spreads the nodes' requests.
    now : callable, optional
        Returns the time, with a time zone; the machine's by default.
    life : timedelta, optional
        How long the certificate is to be valid, if that is less than what the signer gives.

    Raises
    ------
    InvalidInput
        If the node's name is invalid.
    """

    node: str
    file: Path
    ca: Path
    clock: Clock
    rng: random.Random
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    life: timedelta | None = None

    def __post_init__(self) -> None:
        node_name(self.node)

    def ensure(self, connect: Callable[[], SigningRequests], wait_s: float = WAIT_S) -> tuple[datetime, datetime]:
        """Get a certificate unless there is one that is not due; return when it ends, and when it is to be renewed.

        Parameters
        ----------
        connect : callable
            Returns the API; called only if a certificate is needed.
        wait_s : float, optional
            How long to wait for the signer's answer, seconds.

        Raises
        ------
        InvalidInput
            If a file cannot be read or written.
        KubeError
            If the API server does not answer, or refuses.
        NotReady
            If there is no answer in time; the next call continues with the same request.
        CertificateRefused
            If the signer refuses, or signs something else; the next call begins with a new key.
        """
        certificate = self._present()
        if certificate is None:
            certificate = self._request(connect(), wait_s)
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        share = RENEW_AFTER - self.rng.uniform(0.0, 0.1)
        return end, begin + (end - begin) * share

    def _present(self) -> x509.Certificate | None:
        """Return the certificate that there is, unless it has to be renewed."""
        try:
            pem, _, _ = self.file.read_bytes().partition(_KEY_BEGINS)
            certificate = x509.load_pem_x509_certificate(pem)
        except (OSError, ValueError, x509.InvalidVersion):
            return None
        if self._why_not(certificate):
            return None
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        due = begin + (end - begin) * (RENEW_AFTER - 0.1)
        return certificate if begin <= self.now() < due else None

    def _request(self, api: SigningRequests, wait_s: float) -> x509.Certificate:
        self._cas()  # no request for what could not be checked
        key = self._key()
        name = NAME + _digest(key)
        try:
            try:
                answer = api.signing_request(name)
            except KubeRefused as error:
                if error.status != _MISSING:
                    raise
                answer = self._create(api, name, key)
            certificate = self._wait(api, name, answer, wait_s)
            if why := self._why_not(certificate):
                raise CertificateRefused(f"the certificate of {name} is of no use: {why}")
            if certificate.public_key() != key.public_key():
                raise CertificateRefused(
                    f"the signer has signed another key than that of {name}: is the name somebody else's?"
                )
        except CertificateRefused:
            self._waiting_key.unlink(missing_ok=True)  # the same request would be refused again
            raise
        self._write(self.file, certificate.public_bytes(serialization.Encoding.PEM) + _pem(key), 0o400)
        self._waiting_key.unlink(missing_ok=True)
        return certificate

    def _create(self, api: SigningRequests, name: str, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
        # The name is for people who look; the signer takes none from a request.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.node[:64])])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        pem = request.public_bytes(serialization.Encoding.PEM)
        spec = {"signerName": SIGNER, "usages": list(USAGES), "request": base64.b64encode(pem).decode("ascii")}
        if self.life is not None:
            spec["expirationSeconds"] = int(self.life.total_seconds())  # type: ignore[assignment]
        kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        try:
            return api.create_signing_request(kind | {"metadata": {"name": name}, "spec": spec})
        except KubeRefused as error:
            if error.status != _THERE:  # an earlier attempt did not hear that it succeeded
                raise
            return api.signing_request(name)

    def _wait(self, api: SigningRequests, name: str, answer: dict[str, Any], wait_s: float) -> x509.Certificate:
        began, polls = self.clock.now(), 0
        while True:
            status = answer.get("status") or {}
            for condition in status.get("conditions") or ():
                if condition["type"] in ("Denied", "Failed"):
                    why = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
                    raise CertificateRefused(f"the signer refuses {name}: {why or 'it gives no reason'}")
            if status.get("certificate"):
                try:
                    return x509.load_pem_x509_certificate(base64.b64decode(status["certificate"], validate=True))
                except (TypeError, ValueError, x509.InvalidVersion) as error:
                    raise CertificateRefused(f"the answer to {name} is not a certificate: {error}") from error
            polls += 1
            at = self.clock.now() + _POLL.wait_s(polls, self.rng)
            if at > began + wait_s:
                raise NotReady(
                    f"{name} has had no answer for {wait_s:g} s: does `carico signer` run, in the schedulers' pods?"
                )
            self.clock.sleep_until(at)
            try:
                answer = api.signing_request(name)
            except KubeError as error:
                if not error.may_pass:
                    raise

    def _why_not(self, certificate: x509.Certificate) -> str:
        """Return why a certificate is none of this node's; an empty text if it is one."""
        # Nothing is read of what the CA has not signed: it may be written in any way, and reading it fails in many.
        if not any(_has_signed(ca, certificate) for ca in self._cas()):
            return f"the CA in {self.ca} has not signed it"
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        except (x509.ExtensionNotFound, ValueError):
            uris = []
        return "" if uris == [NODE + self.node] else f"it is for {', '.join(uris) or 'nobody'}, not {NODE + self.node}"

    def _cas(self) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(self.ca.read_bytes())
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self.ca} must hold the certificate of the CA of nodes, as PEM: {error}") from error

    @property
    def _waiting_key(self) -> Path:
        return self.file.with_name(f".{self.file.name}.key")

    def _key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key that waits for its certificate, or make one."""
        try:
            loaded = serialization.load_pem_private_key(self._waiting_key.read_bytes(), password=None)
            if isinstance(loaded, ec.EllipticCurvePrivateKey):
                return loaded
        except (OSError, TypeError, ValueError):  # there is none, or it is damaged
            pass
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(self._waiting_key, _pem(key), 0o600)
        return key

    def _write(self, file: Path, content: bytes, mode: int) -> None:
        try:
            write_whole(file, content, mode)
        except OSError as error:
            raise InvalidInput(
                f"{file} cannot be written: {error.strerror}; its folder must exist and be writable"
            ) from error


def _has_signed(ca: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, TypeError, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _digest(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_key().public_bytes(serialization.Encoding.DER, form)).hexdigest()[:40]


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
