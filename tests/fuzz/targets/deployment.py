"""What `carico status` and `carico deploy` read through the Kubernetes API: pages of pods, Secrets and Certificates."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from functools import partial

from carico.deployment.authority import key_digest
from carico.deployment.cert_manager import OWN, CertManager, Issuer, not_ready
from carico.deployment.manifests import COMPONENT
from carico.deployment.status import as_json, ask_status, read_status, show
from carico.errors import InvalidInput, KubeError, NotReady
from carico.testing import ManualClock
from tests.fuzz.target import Target
from tests.fuzz.targets.kubernetes import Client, nodes_ca

NOW = datetime(2026, 11, 20, tzinfo=UTC)
SERVERS = ("extender", "signer")
LEASE = {"spec": {"holderIdentity": "carico-scheduler-0_u", "renewTime": NOW.isoformat(), "leaseDurationSeconds": 15}}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
CONTAINERS = {"containers": [{"name": "carico", "image": "carico:1"}]}
SCHEDULERS = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "carico-scheduler", "creationTimestamp": NOW.isoformat()},
    "spec": {"replicas": 1, "template": {"spec": CONTAINERS}},
    "status": {"readyReplicas": 1},
}
AGGREGATOR = {
    "metadata": {"name": "carico-aggregator-0", "labels": {COMPONENT: "aggregator"}},
    "spec": CONTAINERS,
    "status": READY,
}


class Deployed:
    """A deployment whose pods answer every question with the same page."""

    def __init__(self, data):
        self._client = Client(data)

    def list(self, api_version, kind, namespace=None, labels=""):
        """Return the objects of a kind."""
        node = {"metadata": {"name": "node-1"}}
        return {"Pod": [AGGREGATOR], "StatefulSet": [SCHEDULERS], "Node": [node]}.get(kind, [])

    def read(self, thing):
        """Return an object."""
        return LEASE if thing["kind"] == "Lease" else None

    def ask_pod(self, *arguments):
        """Return the page."""
        return self._client.get(None)


def read_pages(data):
    return read_status(Deployed(data), "carico", NOW)


def status_is_shown(status):
    assert json.loads(as_json(status))["namespace"] == "carico"
    for width in (None, 80, 40):
        assert "".join(show(status, width).split("\n")).isprintable()


class OneObject:
    """An API server that answers with the same object, whatever is asked for."""

    def __init__(self, data):
        self._client, self.asked = Client(data), []

    def read(self, thing):
        """Return the object."""
        return self._client.get(None)

    def list(self, api_version, kind, namespace=None, labels=""):
        """Return a list of the object."""
        return [{"apiVersion": api_version, "kind": kind} | self._client.get(None)]

    def delete(self, thing):
        """Delete the object, which comes back."""
        return True

    def ask_pod(self, namespace, pod, port, page, headers):
        """Note the headers."""
        self.asked.append(headers)
        return {}


def ca_pem():
    return (nodes_ca()[1].folder / "ca.crt").read_text()


def read_issued(data, ca=None):
    return CertManager(OneObject(data), "carico").wait_issued(OWN, SERVERS, ManualClock(), 0.0, ca)


def is_pem(pem):
    assert key_digest(pem.encode("ascii"))


def is_our_ca(pem):
    assert key_digest(pem.encode("ascii")) == key_digest(ca_pem().encode("ascii"))


def read_key(data):
    kube = OneObject(data)
    ask_status(kube, "carico", "carico-scheduler-0", "nodes")
    return kube.asked


def keys_are_headers(asked):
    (headers,) = asked
    assert all(key and key.isascii() and key.isprintable() for key in headers.values())


def read_certificate(data):
    manager = CertManager(OneObject(data), "carico")
    return manager.issuer(), [not_ready(each) for each in manager.certificates()]


def issuer_is_named(read):
    issuer, (why,) = read
    assert isinstance(issuer, Issuer)
    assert str(issuer).count("/") >= 1
    assert isinstance(why, str)


def _secret(issuer=OWN, **content):
    annotations = {"cert-manager.io/issuer-kind": issuer.kind, "cert-manager.io/issuer-name": issuer.name}
    data = {name.replace("_", "."): b64encode(text.encode()).decode() for name, text in content.items()}
    return json.dumps({"metadata": {"annotations": annotations}, "data": data}).encode()


def _certificate(*conditions):
    spec = {"issuerRef": {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "internal"}}
    return json.dumps(
        {"metadata": {"name": "carico-extender"}, "spec": spec, "status": {"conditions": conditions}}
    ).encode()


NODES = {
    "nodes": [
        {"node": "node-1", "pod_capacity": 3.25, "reserved": 1, "age_s": 0.5, "stale": False},
        {
            "node": "node-2",
            "pod_capacity": None,
            "reserved": 0,
            "age_s": 7.5,
            "stale": True,
            "cores": 4.0,
            "load_cores": 3.2,
            "level_cores": 5.0,
            "gib": 16.0,
            "load_gib": 7.25,
        },
    ],
    "workloads": {"running": 1, "waiting": 2, "unknown": 1, "remembered": 7},
    "outliers": [{"node": "node-1", "about": "cores of a pod of jobs/pi", "says": 9.0, "others": 0.5, "for_s": 90.0}],
}
ISSUED = {"tls_crt": ca_pem(), "tls_key": "key", "ca_crt": ca_pem()}
TARGETS = [
    Target(
        "deployment.status",
        "the extender's and the aggregation servers' pages of nodes and outliers",
        read_pages,
        (),
        status_is_shown,
        (json.dumps(NODES).encode(), b'{"nodes":[]}', b"no"),
        form="json",
    ),
    Target(
        "deployment.status_key",
        "the Secret with the key of the status pages",
        read_key,
        (KubeError,),
        keys_are_headers,
        (json.dumps({"metadata": {}, "data": {"key": b64encode(b"0123abcd").decode()}}).encode(),),
        form="json",
    ),
    *(
        Target(
            f"deployment.{name}",
            f"a Secret that cert-manager has filled, {what}",
            partial(read_issued, ca=ca),
            (InvalidInput, KubeError, NotReady),
            holds,
            (_secret(**ISSUED), _secret(), _secret(tls_crt="crt", tls_key="key", ca_crt="no PEM")),
            form="json",
        )
        for name, what, ca, holds in (
            ("issued", "by any CA", None, is_pem),
            ("issued_by_ours", "by our CA", ca_pem(), is_our_ca),
        )
    ),
    Target(
        "deployment.certificate",
        "a Certificate of cert-manager",
        read_certificate,
        (KubeError,),
        issuer_is_named,
        (
            _certificate({"type": "Ready", "status": "True"}),
            _certificate({"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": "not found"}),
            _certificate({"type": "Ready", "status": "False"}, {"type": "Issuing", "status": "True", "message": "x"}),
            _certificate(),
        ),
        form="json",
    ),
]
