"""Answers and events of the Kubernetes API, and of what is asked through it."""

import base64
import json
import random
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import urllib3
from cryptography import x509
from kubernetes.client.exceptions import ApiException
from prometheus_client import CollectorRegistry

from carico.deployment.authority import NODES_CA_NAME, Authority
from carico.deployment.costs import _Answer as KnownWorkloads
from carico.deployment.costs import join
from carico.deployment.costs_table import show, show_by_node
from carico.enrolment.metrics import SignerMetrics
from carico.enrolment.rules import granted
from carico.enrolment.signer import Signer
from carico.errors import KubeError, KubeRefused, NotSigned, TelemetryMalformed
from carico.kube.client import KubeClient, Selection, _SigningRequest, read_as
from carico.kube.reflector import Reflector
from carico.podevents.kube_watch import KubeWatch
from carico.telemetry.metrics_server import MetricsServerSource, allocatable, checked
from carico.testing import ManualClock
from tests.fuzz.target import Target
from tests.fuzz.targets.extender import POD as SHOWN
from tests.fuzz.targets.extender import demand_extender, thesis_extender
from tests.kits.signing_requests import AGENT, NODE_OF_TOKEN, pkcs10, spec

POD = {
    "metadata": {
        "uid": "u",
        "resourceVersion": "5",
        "namespace": "default",
        "name": "pi-1",
        "annotations": {"a": "b"},
        "ownerReferences": [{"kind": "Job", "controller": True, "name": "pi"}],
    },
    "spec": {"nodeName": "node-1", "schedulerName": "carico", "containers": SHOWN["spec"]["containers"]},
    "status": {"phase": "Running"},
}
METRICS = {
    "metadata": {"name": "node-1"},
    "timestamp": "2026-11-20T10:15:30Z",
    "window": "15.032s",
    "usage": {"cpu": "123456789n", "memory": "1234Ki"},
}


class Response:
    """An answer whose content comes in two pieces."""

    def __init__(self, data):
        self.data = data

    def stream(self, size, decode_content):
        half = len(self.data) // 2
        yield self.data[:half]
        yield self.data[half:]

    def read(self, *arguments, **options):
        return self.data

    def close(self):
        pass

    release_conn = close


class Client(KubeClient):
    """A client that gets the same answer to everything."""

    def __init__(self, data):
        self._data = data
        self._timeouts = (1, 1)

    def call(self, call, *arguments, **options):
        return Response(self._data)


def followed(kind, pod):
    """Tell everybody who follows pods what has happened to one."""
    assert isinstance(pod["metadata"]["resourceVersion"], str)
    if kind == "BOOKMARK":
        return
    assert isinstance(pod["metadata"]["uid"], str)
    assert KubeWatch(Selection(None, None, ""), "node-1")._counts(pod) in (True, False)
    for extender in (thesis_extender(), demand_extender()):
        extender.pod_seen(pod)
        extender.tick()
        if kind == "DELETED":
            extender.pod_deleted(pod["metadata"]["uid"])


def read_watch(data):
    return list(Selection(Client(data), None, "").watch("1"))


def events_are_followed(events):
    reflector = Reflector(None, lambda pod: None, ManualClock(), random.Random(1))
    for kind, pod in events:
        reflector._take(kind, pod)
        followed(kind, pod)


class Written:
    """An API that takes every answer to a signing request, and notes it."""

    def __init__(self):
        self.certificates = []

    def approve_signing_request(self, request):
        json.dumps(request)
        return request

    def answer_signing_request(self, request):
        json.dumps(request)
        self.certificates.append((request, request["status"].get("certificate")))
        return request


@cache
def nodes_ca():
    folder = TemporaryDirectory(prefix="carico-fuzz-")
    authority = Authority(Path(folder.name), NOW)
    authority.make_ca(NODES_CA_NAME)
    return folder, authority


def read_signing_requests(data):
    selection = Selection(Client(data), None, "", "signing requests", _SigningRequest)
    return [request for kind, request in selection.watch("1") if kind in ("ADDED", "MODIFIED")]


def only_agents_get_certificates(requests):
    for request in requests:
        api = Written()
        signer = Signer(
            api, nodes_ca()[1], "carico", timedelta(days=7), lambda: NOW, SignerMetrics(CollectorRegistry())
        )
        signer.consider(request)
        for _, certificate in api.certificates:
            if certificate is not None:
                assert request["spec"]["username"] == AGENT
                made = x509.load_pem_x509_certificate(base64.b64decode(certificate))
                names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
                (node,) = request["spec"]["extra"][NODE_OF_TOKEN]
                assert list(names) == [x509.UniformResourceIdentifier(f"carico:node:{node}")]


def read_pkcs10(data):
    return granted(spec(data), "carico", timedelta(days=7))


def the_key_is_on_p_256(given):
    assert (given.node, given.key.curve.name) == ("node-a", "secp256r1")


def read_list(data):
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError):
        return Selection(Client(data), None, "").list()
    if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
        document["metadata"].pop("continue", None)  # the same page would follow for ever
    return Selection(Client(json.dumps(document).encode()), None, "").list()


def list_is_followed(listed):
    pods, version = listed
    assert isinstance(version, str)
    for pod in pods:
        followed("ADDED", pod)


class Refused(KubeClient):
    """A client whose every call is refused with the same body."""

    def __init__(self, data):
        self._timeouts = (1, 1)
        self._body = data

    def ask(self):
        def call(**options):
            raise ApiException(http_resp=_Reply(self._body))

        return self.get(call)


class _Reply:
    status, reason = 403, "Forbidden"

    def __init__(self, data):
        self.data = data

    def getheaders(self):
        return urllib3.HTTPHeaderDict()

    headers = property(getheaders)


def read_refusal(data):
    try:
        Refused(data).ask()
    except KubeRefused as error:
        return error
    raise AssertionError("a refusal was taken for an answer")


def refusal_is_sound(error):
    assert error.status == 403
    assert not error.may_pass


def read_metrics(data):
    return checked(Client(data).get(None), "node-1")


def metrics_become_counters(answer):
    source = MetricsServerSource(
        lambda: answer, "node-1", allocatable_cpus=4.0, allocatable_bytes=2.0**33, clock=ManualClock(1.0)
    )
    counters = source.read()
    assert counters.cpu_total > 0
    assert 0 <= counters.memory_free <= counters.memory_total


def amounts_are_sound(amounts):
    assert all(0 <= amount < float("inf") for amount in amounts)


def read_costs(data):
    answer = Client(data).get(None)
    pods = answer.pop("pods", None)
    known = read_as(KnownWorkloads, answer).workloads
    return known, [pod for pod in pods if isinstance(pod, dict)] if isinstance(pods, list) else []


def costs_are_shown(read):
    known, _ = read
    assert show(join(known, [SHOWN]), 80)
    assert show_by_node([], 80)


COSTS = {
    "workloads": [
        {
            "workload": "jobs/pi",
            "cores": 0.5,
            "cores_doubt": 0.1,
            "gib": 0.2,
            "gib_doubt": 0.01,
            "pods": 2,
            "nodes": 1,
            "idle_s": 3.5,
        }
    ]
}
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def _line(kind, thing):
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


STATUS = {"kind": "Status", "message": "gone", "code": 410}
PKCS10 = pkcs10()
REQUEST = {"metadata": {"uid": "u", "resourceVersion": "5", "name": "carico-node-1"}, "spec": spec(PKCS10)}
TARGETS = [
    Target(
        "kubernetes.watch",
        "a watch on pods",
        read_watch,
        (KubeError,),
        events_are_followed,
        (
            *(_line(kind, POD) for kind in ("ADDED", "MODIFIED", "DELETED")),
            _line("ADDED", POD) + _line("BOOKMARK", {"metadata": {"resourceVersion": "9"}}) + _line("ERROR", STATUS),
        ),
        form="lines",
    ),
    Target(
        "kubernetes.list",
        "a list of pods",
        read_list,
        (KubeError,),
        list_is_followed,
        (json.dumps({"metadata": {"resourceVersion": "7"}, "items": [POD, POD]}).encode(),),
        form="json",
    ),
    Target(
        "kubernetes.signing_requests",
        "a watch on signing requests",
        read_signing_requests,
        (KubeError,),
        only_agents_get_certificates,
        (
            _line("ADDED", REQUEST),
            _line("MODIFIED", REQUEST | {"status": {"conditions": [{"type": "Approved"}]}}),
            _line("ADDED", REQUEST | {"spec": spec(PKCS10, username="somebody", expirationSeconds=600)}),
        ),
        form="lines",
    ),
    Target(
        "kubernetes.pkcs10",
        "the PKCS #10 request in a signing request",
        read_pkcs10,
        (NotSigned,),
        the_key_is_on_p_256,
        (PKCS10,),
    ),
    Target(
        "kubernetes.refusal",
        "the body of a refusal",
        read_refusal,
        (),
        refusal_is_sound,
        (json.dumps(STATUS).encode(), b"", b"no", b'{"more":' + b"[" * 2000),
        form="json",
    ),
    Target(
        "kubernetes.metrics",
        "a NodeMetrics of the metrics server",
        read_metrics,
        (KubeError, TelemetryMalformed),
        metrics_become_counters,
        (json.dumps(METRICS).encode(),),
        form="json",
    ),
    Target(
        "kubernetes.node",
        "a Node, for its allocatable resources",
        lambda data: allocatable(Client(data).get(None)),
        (KubeError, TelemetryMalformed),
        amounts_are_sound,
        (json.dumps({"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}).encode(),),
        form="json",
    ),
    Target(
        "kubernetes.costs",
        "the extender's page of costs",
        read_costs,
        (KubeError,),
        costs_are_shown,
        (json.dumps(COSTS).encode(),),
        form="json",
    ),
]
