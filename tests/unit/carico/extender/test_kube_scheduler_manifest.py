"""The configuration of kube-scheduler that is shipped: every field exists, and agrees with what the extender serves."""

import http.client
import json
import ssl
import tomllib
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from carico.config import ExtenderConfig
from carico.extender.server import serve_extender
from carico.http.tls import ServerTls
from carico.rpc.identity import SERVER
from testbed.simulation.parameters import SimulationParameters
from tests.kits.certificates import Certificates

from .conftest import request

MANIFEST = files("carico") / "manifests" / "kube-scheduler.yaml"
ROOT = Path(__file__).parents[4]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """kube-scheduler refuses a field that it does not know, and so does this."""


class ExtenderTLSConfig(Strict):
    cert_file: str
    key_file: str
    ca_file: str = msgspec.field(name="caFile")
    insecure: bool = False
    server_name: str = ""


class Extender(Strict):
    """k8s.io/kube-scheduler/config/v1, types.go: Extender."""

    url_prefix: str
    tls_config: ExtenderTLSConfig
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    http_timeout: str = "0s"
    node_cache_capable: bool = False
    ignorable: bool = False


class Profile(Strict):
    scheduler_name: str
    percentage_of_nodes_to_score: int | None = None


class LeaderElection(Strict):
    leader_elect: bool
    resource_namespace: str
    resource_name: str


class KubeSchedulerConfiguration(Strict):
    """The same file's type of that name, as far as it is used here."""

    api_version: str
    kind: str
    leader_election: LeaderElection
    profiles: list[Profile]
    extenders: list[Extender]
    percentage_of_nodes_to_score: int
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int


@pytest.fixture
def manifest():
    return msgspec.convert(yaml.safe_load(MANIFEST.read_text()), KubeSchedulerConfiguration)


def test_it_is_a_kube_scheduler_configuration_for_one_profile_with_one_extender(manifest):
    assert (manifest.api_version, manifest.kind) == ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
    assert [profile.scheduler_name for profile in manifest.profiles] == [ExtenderConfig().scheduler_name]
    assert len(manifest.extenders) == 1


def test_it_does_not_wait_for_the_lock_of_the_clusters_own_scheduler(manifest):
    assert manifest.leader_election.leader_elect, "of several replicas one may ask: each has reservations of its own"
    assert manifest.leader_election.resource_name != "kube-scheduler"


def test_the_extender_alone_decides(manifest):
    (extender,) = manifest.extenders
    assert extender.filter_verb
    assert (extender.prioritize_verb, extender.bind_verb, extender.preempt_verb, extender.weight) == ("", "", "", 0)
    assert extender.node_cache_capable
    assert not extender.ignorable
    assert manifest.percentage_of_nodes_to_score == 100


def test_back_off_is_the_simulated_one(manifest):
    assert manifest.pod_initial_backoff_seconds == SimulationParameters().backoff_initial_s
    assert manifest.pod_max_backoff_seconds == SimulationParameters().carico_backoff_max_s
    assert 0 < manifest.pod_initial_backoff_seconds <= manifest.pod_max_backoff_seconds, "else it is refused"


def test_address_and_client_are_the_extenders_defaults(manifest):
    (extender,), config = manifest.extenders, ExtenderConfig()
    url = urlsplit(extender.url_prefix)
    assert (url.scheme, url.port) == ("https", config.port)
    assert extender.enable_https
    assert (url.hostname, config.host) == ("localhost", "127.0.0.1")
    name = Path(extender.tls_config.cert_file).stem.removeprefix("server-")
    assert SERVER + name in config.clients


def test_kube_scheduler_gives_up_before_the_extender_does(manifest):
    timeout = manifest.extenders[0].http_timeout
    assert timeout.endswith("s")
    assert 0 < float(timeout.removesuffix("s")) < ExtenderConfig().limits.request_timeout_s


def test_an_extender_answers_who_calls_as_the_file_says(manifest, harness, tmp_path):
    """With the files that `carico certs` makes, under their names."""
    (extender,), config = manifest.extenders, ExtenderConfig()
    url, tls = urlsplit(extender.url_prefix), extender.tls_config
    certificates = Certificates(tmp_path)
    certificate, key, ca = (tmp_path / Path(path).name for path in (tls.cert_file, tls.key_file, tls.ca_file))
    certificates.server("kube-scheduler")
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    harness.report(a=3, b=2)
    served = ServerTls(certificates.server("extender", url.hostname))
    clients = frozenset(config.clients)
    with serve_extender(
        harness.extender,
        harness.extender._metrics,
        host=config.host,
        port=0,
        tls=served,
        clients=clients,
        limits=config.limits,
    ) as server:
        connection = http.client.HTTPSConnection(url.hostname, server.port, timeout=5, context=context)
        connection.request("POST", f"{url.path.rstrip('/')}/{extender.filter_verb}", request("u1", ["a", "b"]))
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["NodeNames"]) == (200, ["a"])
        connection.close()


def test_it_is_package_data():
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("these are not the sources")
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["carico"]
    assert any(fnmatch("manifests/kube-scheduler.yaml", pattern) for pattern in patterns)
