"""A fake cert-manager on a fake API server: it fills the Secrets of Certificates when it is told to look."""

import base64
from datetime import UTC, datetime
from pathlib import Path

from carico.deployment.authority import Authority

API = "/apis/cert-manager.io/v1/namespaces/carico"
SECRETS = "/api/v1/namespaces/carico/secrets"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


class FakeCertManager:
    """Signs with the CA of an Issuer's Secret, or with a CA of the test.

    Parameters
    ----------
    cluster : FakeApiServer
        Gets the kinds of cert-manager.
    folder : Path

    Attributes
    ----------
    issuers : dict
        The CAs of further issuers, by kind and name.
    shows_ca : bool
        Whether Secrets hold the CA's certificate.
    """

    def __init__(self, cluster, folder):
        self._cluster, self._folder = cluster, folder
        cluster.unknown.discard("cert-manager.io")
        self.issuers, self.shows_ca = {}, True
        self._made = 0

    def add_issuer(self, kind, name):
        """Add an issuer with a CA of its own, and return its certificate."""
        self._made += 1
        authority = Authority(self._folder / f"ca-{self._made}", NOW)
        self.issuers[kind, name] = authority
        return authority.make_ca(f"{name} {self._made}").read_text()

    def certificates(self):
        """Return the Certificates by name."""
        return {thing["metadata"]["name"]: thing for thing in self._cluster.within(f"{API}/certificates")}

    def look(self, _seconds=0.0):
        """Issue what is missing, as the controller does."""
        for name, certificate in self.certificates().items():
            reference = certificate["spec"]["issuerRef"]
            issuer = reference["kind"], reference["name"]
            path = f"{SECRETS}/{certificate['spec']['secretName']}"
            annotations = dict(zip(("cert-manager.io/issuer-kind", "cert-manager.io/issuer-name"), issuer, strict=True))
            there = self._cluster.objects.get(path, {"metadata": {}})
            if there["metadata"].get("annotations") == annotations:
                continue
            authority = self._authority(issuer)
            ready = {"type": "Ready", "status": "True"}
            if authority is None:
                message = f'Referenced "{issuer[0]}" not found: {issuer[1]}'
                ready = {"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": message}
            else:
                self._fill(path, certificate, authority, annotations)
            self._cluster.objects[f"{API}/certificates/{name}"] = certificate | {"status": {"conditions": [ready]}}

    def _authority(self, issuer):
        found = self._cluster.objects.get(f"{API}/issuers/{issuer[1]}") if issuer[0] == "Issuer" else None
        if found is None:
            return self.issuers.get(issuer)
        secret = self._cluster.objects[f"{SECRETS}/{found['spec']['ca']['secretName']}"]["data"]
        self._made += 1
        folder = self._folder / f"of-secret-{self._made}"
        folder.mkdir()
        for kind in ("crt", "key"):
            (folder / f"ca.{kind}").write_bytes(base64.b64decode(secret[f"tls.{kind}"]))
        return Authority(folder, NOW)

    def _fill(self, path, certificate, authority, annotations):
        spec = certificate["spec"]
        self._made += 1
        made = Authority(Path(authority.folder), NOW, overwrite=True).make_server(spec["commonName"], spec["dnsNames"])
        data = {"tls.crt": made, "tls.key": made.with_suffix(".key")}
        if self.shows_ca:
            data["ca.crt"] = authority.folder / "ca.crt"
        self._cluster.put(
            path,
            type="kubernetes.io/tls",
            data={name: base64.b64encode(file.read_bytes()).decode() for name, file in data.items()},
            metadata={
                "name": spec["secretName"],
                "namespace": "carico",
                "labels": spec["secretTemplate"]["labels"],
                "annotations": annotations,
            },
        )
