"""cert-manager in place of `carico deploy` for servers' certificates: it issues them on the cluster, and renews them.

Each server gets a Certificate, whose Secret has the name and the content that pods mount. The issuer is one that the
user names, or an Issuer of CARICO's own CA; that CA's key is then on the cluster. Which issuer a deployment uses is
read from its Certificates, so that later deployments and renewals keep to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from carico.clock import Clock
from carico.deployment.authority import key_digest
from carico.deployment.certificates import CA_SECRET, SERVERS
from carico.deployment.manifests import COMPONENT, LABELS, SELECTOR
from carico.deployment.secrets import annotations_of, content_of
from carico.errors import InvalidInput, KubeRefused, NotReady
from carico.kube.client import read_as
from carico.kube.objects import KubeObject, KubeObjects, title
from carico.rpc.identity import SERVER

API = "cert-manager.io/v1"
_MANAGED_BY = ("cert-manager.io/issuer-kind", "cert-manager.io/issuer-name")
"""Annotations of a Secret that cert-manager has filled."""
_LIFE = "2160h0m0s"
"""Ninety days, of which cert-manager renews after two thirds."""
_LOOK_EVERY_S = 1.0


class _Reference(msgspec.Struct):
    name: str
    kind: str | None = None


class _Spec(msgspec.Struct):
    issuer: _Reference = msgspec.field(name="issuerRef")


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Certificate(msgspec.Struct):
    spec: _Spec


class _Looked(msgspec.Struct):
    """A Certificate that cert-manager may have looked at."""

    status: _Status | None = None


@dataclass(frozen=True)
class Issuer:
    """What signs Certificates.

    Parameters
    ----------
    kind : str
        ``Issuer``, of the deployment's namespace, or ``ClusterIssuer``.
    name : str
    """

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Issuer:
        """Return the issuer that KIND/NAME names.

        Raises
        ------
        InvalidInput
            If the text names none.
        """
        kind, _, name = text.partition("/")
        if kind not in ("Issuer", "ClusterIssuer") or not name or "/" in name:
            raise InvalidInput(f"an issuer of cert-manager is named Issuer/NAME or ClusterIssuer/NAME, got {text!r}")
        return cls(kind, name)

    @property
    def has_own_ca(self) -> bool:
        """Whether this is the Issuer of CARICO's own CA."""
        return self == OWN

    def __str__(self) -> str:
        """Return KIND/NAME."""
        return f"{self.kind}/{self.name}"


OWN = Issuer("Issuer", "carico-ca")
"""The Issuer that `carico deploy` makes of CARICO's own CA."""
NOBODY = Issuer("", "")
"""In place of an issuer: CARICO makes servers' certificates itself, again."""


def objects(issuer: Issuer, hosts: Mapping[str, Sequence[str]], namespace: str) -> list[dict[str, Any]]:
    """Return a Certificate for each server, after the Issuer if it is CARICO's own.

    Parameters
    ----------
    issuer : Issuer
    hosts : mapping of str to sequence of str
        Host names, by server.
    namespace : str
    """
    own = [_object("Issuer", OWN.name, namespace, "certificates", {"ca": {"secretName": CA_SECRET}})]
    return (own if issuer.has_own_ca else []) + [
        _object("Certificate", f"carico-{server}", namespace, SERVERS[server], _certificate(server, names, issuer))
        for server, names in hosts.items()
    ]


def _certificate(server: str, hosts: Sequence[str], issuer: Issuer) -> dict[str, Any]:
    return {
        "secretName": f"carico-{server}-tls",
        "secretTemplate": {"labels": LABELS | {COMPONENT: SERVERS[server]}},
        "commonName": server,
        "dnsNames": list(hosts),
        "uris": [SERVER + server],
        "usages": ["digital signature", "server auth", "client auth"],
        "duration": _LIFE,
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "issuerRef": {"group": API.partition("/")[0], "kind": issuer.kind, "name": issuer.name},
    }


def _object(kind: str, name: str, namespace: str, component: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    labels = LABELS | {COMPONENT: component}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": dict(spec)}


@dataclass(frozen=True)
class CertManager:
    """What cert-manager has of a deployment.

    Parameters
    ----------
    kube : KubeObjects
    namespace : str
        The deployment's.
    """

    kube: KubeObjects
    namespace: str

    def certificates(self) -> list[KubeObject] | None:
        """Return the deployment's Certificates; None if the cluster has no cert-manager.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses.
        """
        return self._list("Certificate")

    def issuers(self) -> list[KubeObject]:
        """Return the deployment's own Issuers; raises as `certificates` does."""
        return self._list("Issuer") or []

    def issuer(self) -> Issuer | None:
        """Return the issuer of the deployment's Certificates; None if it has none; raises as `certificates` does."""
        for thing in self.certificates() or ():
            reference = read_as(_Certificate, thing).spec.issuer
            return Issuer(reference.kind or "Issuer", reference.name)
        return None

    def secret(self, server: str) -> dict[str, Any]:
        """Return the name and kind of the Secret with a server's certificate."""
        metadata = {"name": f"carico-{server}-tls", "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

    def wait_issued(
        self, issuer: Issuer, servers: Sequence[str], clock: Clock, within_s: float, ca: str | None = None
    ) -> str:
        """Wait until the issuer has signed for all servers, and return the CA's certificate, as PEM.

        Parameters
        ----------
        issuer : Issuer
        servers : sequence of str
        clock : Clock
        within_s : float
        ca : str, optional
            The CA that must have signed, as PEM. Secrets of another CA are removed, so that cert-manager fills them
            again: it does not notice by itself that an issuer has got another CA.

        Raises
        ------
        InvalidInput
            If the issuer does not say which CA it signs with, or signs with several.
        KubeError
            If the API server does not answer, or refuses permanently.
        NotReady
            If there is a certificate missing after `within_s` seconds; the message says what cert-manager says.
        """
        until = clock.now() + within_s
        while True:
            secrets = {server: self._issued(server, issuer, ca) for server in servers}
            missing = [server for server, data in secrets.items() if data is None]
            if not missing:
                return _ca_of([data for data in secrets.values() if data is not None], issuer)
            if clock.now() >= until:
                raise NotReady(
                    f"{issuer} has issued no certificate within {within_s:g} s: "
                    + "; ".join(self._why_not(server) for server in missing)
                )
            clock.sleep_until(clock.now() + _LOOK_EVERY_S)

    def _issued(self, server: str, issuer: Issuer, ca: str | None) -> dict[str, bytes] | None:
        """Return the content of a server's Secret; None if the issuer has not filled it yet."""
        found = self.kube.read(self.secret(server))
        if found is None or not _managed_by(found, issuer):
            return None
        data = content_of(found)
        if not (data.get("tls.crt") and data.get("tls.key")):
            return None
        if ca is not None and not _is_of(data.get("ca.crt", b""), ca):
            self.kube.delete(self.secret(server))
            return None
        return data

    def _why_not(self, server: str) -> str:
        metadata = {"name": f"carico-{server}", "namespace": self.namespace}
        certificate = {"apiVersion": API, "kind": "Certificate", "metadata": metadata}
        return f"{title(certificate)}: {not_ready(self.kube.read(certificate) or certificate) or 'about to be issued'}"

    def _list(self, kind: str) -> list[KubeObject] | None:
        try:
            return list(self.kube.list(API, kind, self.namespace, labels=SELECTOR))
        except KubeRefused as error:
            if error.status == 404:
                return None
            raise


def not_ready(certificate: KubeObject) -> str:
    """Return why a Certificate is not ready; an empty text if it is. Raises KubeUnreachable if it is no Certificate."""
    status = read_as(_Looked, certificate).status or _Status()
    conditions = {each.type: each for each in status.conditions or ()}
    ready = conditions.get("Ready")
    if ready is None:
        return "cert-manager has not looked at it: does its controller run?"
    if ready.status == "True":
        return ""
    issuing = conditions.get("Issuing")
    return (issuing and issuing.message) or ready.message or ready.reason or "cert-manager gives no reason"


def _managed_by(secret: KubeObject, issuer: Issuer) -> bool:
    return tuple(map(annotations_of(secret).get, _MANAGED_BY)) == (issuer.kind, issuer.name)


def _is_of(pem: bytes, ca: str) -> bool:
    """Whether a certificate has the key of a CA; something else than a certificate has not."""
    try:
        return key_digest(pem) == key_digest(ca.encode())
    except ValueError:
        return False


def _ca_of(secrets: Sequence[Mapping[str, bytes]], issuer: Issuer) -> str:
    cas = {data.get("ca.crt", b"") for data in secrets}
    if len(cas) != 1 or cas == {b""}:
        raise InvalidInput(
            f"{issuer} must say which CA it signs with, one for all certificates (ca.crt in their Secrets); it names "
            f"{len(cas - {b''})}: use an issuer of a private CA"
        )
    (ca,) = cas
    try:
        key_digest(ca)
        return ca.decode("ascii")
    except ValueError as error:
        raise InvalidInput(
            f"{issuer} must say which CA it signs with, as PEM (ca.crt in the Secrets of its certificates): {error}"
        ) from error
