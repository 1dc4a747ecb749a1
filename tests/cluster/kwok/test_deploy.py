"""`carico deploy`, `status` and `undeploy` on a real API server, and a real kube-scheduler with the deployed files."""

import asyncio
import base64
import json
import random
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from unittest import mock

import msgspec
import pytest
import yaml
from kubernetes.client import CoordinationV1Api
from kubernetes.client.exceptions import ApiException
from prometheus_client import CollectorRegistry

from carico.clock import SystemClock
from carico.config import ExtenderConfig, KubernetesConfig, StatusConfig
from carico.deployment.authority import Authority
from carico.deployment.ca_folder import copy_ca
from carico.errors import KubeRefused, Refused
from carico.extender.process import ExtenderProcess
from carico.http.health import serve_status
from carico.http.key import HEADER
from carico.kube.client import KubeClient
from carico.kube.objects import KubeObjects
from carico.rpc.clients import ReportClient
from carico.rpc.tls import ClientTls
from carico.scheduling.report import CapacityReport
from testbed.programs.find import found_programs

from .deployed import NAMESPACE, WITH_AGGREGATORS, Cluster

pytestmark = pytest.mark.cluster
NODES = ["deploy-node-0", "deploy-node-1"]


@pytest.fixture
def cluster(carico_cluster):
    """A cluster without CARICO and with two additional nodes."""
    cluster = Cluster(carico_cluster.kubeconfig)
    for node in NODES:
        cluster.add_node(node)
    yield cluster
    cluster.carico("undeploy", "--wait", "180")
    for node in [*NODES, "late"]:
        cluster.remove_node(node)


@pytest.fixture
def deployed(cluster):
    """The cluster with CARICO, whose fake pods are ready."""
    code, out = cluster.carico("deploy", *WITH_AGGREGATORS, "--wait", "180")
    assert code == 0, out
    return cluster


def program(name):
    """Return the path of one of Kubernetes' programs."""
    found = found_programs([name])
    assert found, f"{name} is missing: build it with `carico-testbed images programs`"
    return str(found[name])


def test_every_object_is_listed_and_created(deployed):
    code, again = deployed.carico("deploy", *WITH_AGGREGATORS, "--wait", "60")
    assert code == 0
    for line in ["daemonset.apps/carico-agent", "statefulset.apps/carico-scheduler", "secret/carico-nodes-ca"]:
        assert f"{line} serverside-applied\n" in again
    pods = deployed.core.list_namespaced_pod(NAMESPACE).items
    components = [pod.metadata.labels["app.kubernetes.io/component"] for pod in pods]
    assert components.count("agent") == len(deployed.nodes())
    assert (components.count("aggregator"), components.count("scheduler")) == (2, 2)


def test_a_second_deployment_changes_nothing(deployed):
    def seen():
        secrets = ["carico-ca", "carico-nodes-ca", "carico-extender-tls", "carico-aggregator-tls"]
        pods = {pod.metadata.uid for pod in deployed.core.list_namespaced_pod(NAMESPACE).items}
        return [deployed.secret(name) for name in secrets], pods

    before = seen()
    deployed.carico("deploy", *WITH_AGGREGATORS, "--wait", "60")
    assert seen() == before


def test_the_cas_key_is_in_the_users_folder_and_not_on_the_cluster(deployed):
    (key,) = deployed.config.glob("carico/*/ca.key")
    assert key.parent.name == deployed.core.read_namespace("kube-system").metadata.uid
    assert key.stat().st_mode & 0o777 == 0o600
    secrets = deployed.core.list_namespaced_secret(NAMESPACE).items
    assert "carico-ca" not in [secret.metadata.name for secret in secrets]


def test_renewing_rolls_nothing_and_nor_does_the_next_deployment(deployed):
    def pods():
        return {pod.metadata.uid for pod in deployed.core.list_namespaced_pod(NAMESPACE).items}

    before, first = pods(), deployed.secret("carico-extender-tls")
    assert deployed.carico("renew", "--wait", "60") == (0, mock.ANY)
    assert deployed.secret("carico-extender-tls") == first
    code, out = deployed.carico("renew", "--all", "--wait", "60")
    assert code == 0, out
    assert deployed.secret("carico-extender-tls") != first
    code, out = deployed.carico("deploy", *WITH_AGGREGATORS, "--wait", "60")
    assert code == 0, out
    assert pods() == before


def test_the_keys_of_an_earlier_version_are_removed_when_all_agents_have_their_own(deployed):
    labels = deployed.core.read_namespaced_secret("carico-nodes-ca", NAMESPACE).metadata.labels
    keys = {"metadata": {"name": "carico-agent-tls", "labels": labels}, "stringData": {"node": "of an earlier version"}}
    deployed.core.create_namespaced_secret(NAMESPACE, keys)
    assert "secret/carico-agent-tls still holds the keys of all nodes" in deployed.carico("status")[1]
    code, out = deployed.carico("deploy", *WITH_AGGREGATORS, "--wait", "60")
    assert (code, "secret/carico-agent-tls deleted" in out) == (0, True), out
    assert deployed.secret("carico-agent-tls") is None


def test_a_changed_configuration_rolls_only_its_own_pods(deployed):
    def pods():
        found = deployed.core.list_namespaced_pod(NAMESPACE).items
        return {pod.metadata.uid: pod.metadata.labels["app.kubernetes.io/component"] for pod in found}

    before = pods()
    code, _ = deployed.carico("deploy", *WITH_AGGREGATORS, "--telemetry", "cgroup", "--wait", "60")
    assert code == 0
    assert deployed.configuration_file("agent", "agent.yaml")["telemetry"] == "cgroup"
    after = pods()
    kept = set(before) & set(after)
    assert {before[uid] for uid in kept} == {"aggregator", "scheduler"}
    assert len(kept) == 4


def test_undeploy_leaves_nothing_and_may_be_repeated(deployed):
    deployed.core.patch_node(NODES[0], {"metadata": {"annotations": {"carico.dev/capacity": "1.00"}}})
    code, out = deployed.carico("undeploy", "--wait", "60")
    assert code == 0, out
    assert f"node/{NODES[0]} annotation removed" in out
    assert NAMESPACE not in [item.metadata.name for item in deployed.core.list_namespace().items]
    assert "carico.dev/capacity" not in (deployed.core.read_node(NODES[0]).metadata.annotations or {})
    for account in ("carico-scheduler", "carico-agent"):
        assert not deployed.may(account, "patch", "", "nodes")
    code, out = deployed.carico("undeploy")
    assert (code, "nothing to remove" in out) == (0, True)


def test_a_namespace_of_another_owner_stays(cluster):
    cluster.core.create_namespace({"metadata": {"name": "shared"}})
    try:
        code, out = cluster.carico("deploy", *WITH_AGGREGATORS, "--namespace", "shared", "--wait", "60")
        assert (code, "namespace/shared is not CARICO's: left as it is" in out) == (0, True), out
        code, _ = cluster.carico("deploy", *WITH_AGGREGATORS, "--wait", "0")
        assert code == 1, "a cluster can have only one deployment"
        code, _ = cluster.carico("undeploy", "--namespace", "shared", "--wait", "60")
        assert code == 0
        assert "shared" in [item.metadata.name for item in cluster.core.list_namespace().items]
        assert cluster.core.list_namespaced_secret("shared").items == []
    finally:
        cluster.core.delete_namespace("shared")


def test_fields_of_other_owners_are_taken_over_only_if_asked_for(deployed):
    deployed.core.patch_namespaced_config_map(
        "carico-aggregator", NAMESPACE, {"data": {"aggregator.yaml": "port: 1"}}, field_manager="somebody"
    )
    code, out = deployed.carico("deploy", *WITH_AGGREGATORS, "--wait", "0")
    assert code == 1
    assert "configmap/carico-aggregator serverside-applied" not in out
    code, out = deployed.carico("deploy", *WITH_AGGREGATORS, "--wait", "0", "--force-conflicts")
    assert code == 0, out


def test_kubectl_kustomize_gives_the_same_objects(cluster):
    made = subprocess.run(
        [program("kubectl"), "kustomize", str(files("carico") / "manifests")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    _, ours = cluster.carico("deploy", *WITH_AGGREGATORS, "--dry-run")
    assert comparable(made) == comparable(ours)


def comparable(text):
    """Return objects by kind and name, without name suffixes and digests of configurations."""
    text = re.sub(r"\b(carico-\w+)-[a-z0-9]{10}\b", r"\1", text)
    objects = list(yaml.safe_load_all(text))
    for each in objects:
        annotations = each.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
        annotations.pop("carico.dev/configuration", None)
        if each["kind"] == "ConfigMap":
            each["metadata"].pop("labels", None)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_status_shows_pods_and_that_no_scheduler_leads(deployed):
    """KWOK's pods run no programs, so no kube-scheduler leads."""
    code, out = deployed.carico("status")
    assert code == 1
    assert "daemonset.apps/carico-agent" in out
    assert "no kube-scheduler leads" in out
    code, out = deployed.carico("status", "--json")
    status = json.loads(out)
    assert {each["name"]: each["rolled_out"] for each in status["components"]} == {
        "statefulset.apps/carico-aggregator": True,
        "statefulset.apps/carico-scheduler": True,
        "daemonset.apps/carico-agent": True,
    }
    assert [node["name"] for node in status["nodes"] if node["agent_ready"]] == deployed.nodes()


def test_the_api_server_hands_the_key_on_to_an_extender(deployed, tmp_path):
    """A status is served at this machine's address, which a pod is said to have."""
    address = address_of_this_machine()
    (tmp_path / "key").write_bytes(deployed.secret("carico-status-key")["key"])
    where = StatusConfig(address, tls=True, key=str(tmp_path / "key"))
    files = deployed.server_files("extender", tmp_path / "extender")
    pages = {"/nodes": lambda: b'{"nodes": []}'}
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}
    pod = {"metadata": {"name": "answers"}, "spec": spec}
    deployed.core.create_namespaced_pod(NAMESPACE, pod)
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    deployed.core.patch_namespaced_pod_status("answers", NAMESPACE, status)
    kube = KubeObjects(KubeClient.from_config(str(deployed.kubeconfig)))
    with serve_status(where, files, CollectorRegistry(), lambda: "", lambda: "", pages) as served:
        with pytest.raises(KubeRefused, match="answered 403"):
            kube.ask_pod(NAMESPACE, "answers", served.port, "nodes")
        key = deployed.secret("carico-status-key")["key"].decode()
        assert kube.ask_pod(NAMESPACE, "answers", served.port, "nodes", {HEADER: key}) == {"nodes": []}
    deployed.core.delete_namespaced_pod("answers", NAMESPACE)


def address_of_this_machine():
    """Return an address that is not on loopback; the API server connects to no pod that claims to be there."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
        except OSError as error:
            pytest.skip(f"this machine has only a loopback address: {error}")
        return one.getsockname()[0]


@contextmanager
def extender(deployed, folder):
    """Run the extender as in its pod, with its account, its certificate and its settings except for addresses."""
    tls = deployed.server_files("extender", folder / "extender")
    config = msgspec.convert(deployed.configuration_file("scheduler", "extender.yaml"), ExtenderConfig)
    kubeconfig = kubeconfig_with(deployed, account_token(deployed), "carico-extender", folder)
    config = msgspec.structs.replace(
        config,
        host="127.0.0.1",
        report_host=None,
        port=0,
        report_port=0,
        tls=tls,
        kubernetes=KubernetesConfig(str(kubeconfig)),
        journal=None,
        status=msgspec.structs.replace(config.status, host="127.0.0.1", port=0, key=None),
    )
    kube = KubeClient.from_config(str(kubeconfig))
    try:
        with ExtenderProcess(config, SystemClock(), random.Random(1), kube) as process:
            yield process
    finally:
        kube.close()


def kubeconfig_of(deployed, account, folder):
    """Write a kubeconfig with a token of a service account, and return its path."""
    token = deployed.core.create_namespaced_service_account_token(
        account, NAMESPACE, {"spec": {"expirationSeconds": 3600}}
    ).status.token
    return kubeconfig_with(deployed, token, account, folder)


def account_token(deployed, account="carico-extender"):
    """Return a token of an account as the container `tokens` gets it, with the rights of kube-scheduler's account."""
    with deployed.acting_as("carico-scheduler") as core:
        answer = core.create_namespaced_service_account_token(account, NAMESPACE, {"spec": {"expirationSeconds": 3600}})
    return answer.status.token


def kubeconfig_with(deployed, token, account, folder):
    """Write a kubeconfig with a token, and return its path."""
    whole = yaml.safe_load(deployed.kubeconfig.read_text())
    whole["users"] = [{"name": account, "user": {"token": token}}]
    for context in whole["contexts"]:
        context["context"]["user"] = account
    file = folder / f"{account}.kubeconfig"
    file.write_text(yaml.safe_dump(whole))
    return file


def mount_files(source, tls):
    """Put a certificate and its key where kube-scheduler's container has them, over what is there."""
    for kind in ("key", "crt"):
        draft = tls / f"draft.{kind}"
        draft.write_bytes(source.with_suffix(f".{kind}").read_bytes())
        draft.rename(tls / f"server-kube-scheduler.{kind}")


@contextmanager
def kube_scheduler(deployed, folder, extender_port, shows=None):
    """Run the real kube-scheduler as in its pod, or with another certificate; yields its log file."""
    tls = folder / "kube-scheduler"
    deployed.server_files("kube-scheduler", tls)
    mount_files(shows or tls / "tls.crt", tls)
    config = deployed.configuration_file("scheduler", "kube-scheduler.yaml")
    text = yaml.safe_dump(config).replace("/etc/carico/tls", str(tls)).replace(":8443", f":{extender_port}")
    config = yaml.safe_load(text)
    config["clientConnection"] = {"kubeconfig": str(kubeconfig_of(deployed, "carico-scheduler", folder))}
    (folder / "kube-scheduler.yaml").write_text(yaml.safe_dump(config))
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    log = folder / "kube-scheduler.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                program("kube-scheduler"),
                f"--config={folder / 'kube-scheduler.yaml'}",
                f"--leader-elect-resource-namespace={NAMESPACE}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
            ],
            stdout=stream,
            stderr=stream,
        )
    try:
        yield log
    finally:
        process.terminate()
        process.wait(60)


async def report(deployed, folder, port, node, about, pod_capacity):
    """Report about a node with the certificate of a (possibly different) node."""
    credentials = ClientTls(deployed.node_files(node, folder / "nodes"))
    async with ReportClient(f"localhost:{port}", credentials, deadline_s=5.0) as client:
        await client.report(CapacityReport(about, pod_capacity, 0, time.time(), int(time.monotonic() * 1e3)))


def of_carico(name):
    """A pod that CARICO schedules."""
    spec = {
        "schedulerName": "carico",
        "containers": [{"name": "main", "image": "none"}],
        "tolerations": [{"operator": "Exists"}],
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_containers_get_tokens_of_their_own_accounts_which_expire(deployed, tmp_path):
    """The command of the container `tokens`, with kube-scheduler's account."""
    folders = {account: tmp_path / account for account in ("carico-extender", "carico-signer")}
    for folder in folders.values():
        folder.mkdir()
    (tmp_path / "ca").write_text("the API server's")
    kubeconfig = kubeconfig_of(deployed, "carico-scheduler", tmp_path)
    command = [
        sys.executable,
        "-m",
        "carico",
        "tokens",
        *(f"{account}={folder}" for account, folder in folders.items()),
    ]
    command += [f"--namespace={NAMESPACE}", f"--ca={tmp_path / 'ca'}", f"--kubeconfig={kubeconfig}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not all((folder / "token").exists() for folder in folders.values()):
            assert time.monotonic() < deadline, process.stderr.read()
            time.sleep(0.1)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
    for account, folder in folders.items():
        token = (folder / "token").read_text()
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        assert claims["sub"] == f"system:serviceaccount:{NAMESPACE}:{account}"
        assert claims["exp"] - claims["iat"] == 3600
        with closing(KubeClient.from_config(str(kubeconfig_with(deployed, token, account, tmp_path)))) as kube:
            if account == "carico-extender":
                assert kube.pods("metadata.namespace=carico").list()[0]
            else:
                kube.signing_requests("carico.dev/node").list()


@pytest.mark.parametrize("account", ["carico-scheduler", "carico-agent", "carico-aggregator"])
def test_kube_schedulers_account_gets_no_tokens_of_others(deployed, account):
    with pytest.raises(ApiException) as refused:
        account_token(deployed, account)
    assert refused.value.status == 403


def test_the_deployed_rights_and_files_suffice_to_schedule_a_pod(deployed, tmp_path):
    """The deployed rights, certificates and configuration suffice for the real kube-scheduler."""
    pod = of_carico("one")
    with ExitStack() as running:
        process = running.enter_context(extender(deployed, tmp_path))
        log = running.enter_context(kube_scheduler(deployed, tmp_path, process.port))
        deployed.core.create_namespaced_pod("default", pod)
        running.callback(deployed.core.delete_namespaced_pod, "one", "default", grace_period_seconds=0)
        deadline = time.monotonic() + 60
        bound = None
        while bound is None and time.monotonic() < deadline:
            asyncio.run(report(deployed, tmp_path, process.report_port, NODES[0], NODES[0], 0.5))
            asyncio.run(report(deployed, tmp_path, process.report_port, NODES[1], NODES[1], 3.0))
            time.sleep(0.5)
            bound = deployed.core.read_namespaced_pod("one", "default").spec.node_name
        assert bound == NODES[1], log.read_text()[-3000:]
        assert leader(deployed).startswith(socket.gethostname())
    assert "forbidden" not in log.read_text()


def test_kube_scheduler_shows_a_replaced_certificate_without_a_restart(deployed, tmp_path):
    """Renewed files are read by the running kube-scheduler; its first certificate is one that the extender refuses."""
    (ca,) = deployed.config.glob("carico/*")
    copy_ca(ca, tmp_path / "ca")
    stranger = Authority(tmp_path / "ca", datetime.now(UTC)).make_server("stranger", ["localhost"])
    pod = of_carico("two")
    with ExitStack() as running:
        process = running.enter_context(extender(deployed, tmp_path))
        log = running.enter_context(kube_scheduler(deployed, tmp_path, process.port, shows=stranger))
        deployed.core.create_namespaced_pod("default", pod)
        running.callback(deployed.core.delete_namespaced_pod, "two", "default", grace_period_seconds=0)
        deadline = time.monotonic() + 120
        replaced, bound = False, None
        while bound is None and time.monotonic() < deadline:
            asyncio.run(report(deployed, tmp_path, process.report_port, NODES[0], NODES[0], 3.0))
            time.sleep(0.5)
            bound = deployed.core.read_namespaced_pod("two", "default").spec.node_name
            assert replaced or bound is None
            if not replaced and "403" in log.read_text():
                mount_files(tmp_path / "kube-scheduler" / "tls.crt", tmp_path / "kube-scheduler")
                replaced = True
    assert (replaced, bound) == (True, NODES[0]), log.read_text()[-3000:]


def leader(deployed):
    lease = CoordinationV1Api(deployed.core.api_client).read_namespaced_lease("carico-kube-scheduler", NAMESPACE)
    return lease.spec.holder_identity


def test_a_nodes_certificate_cannot_report_for_another_node(deployed, tmp_path):
    with extender(deployed, tmp_path) as process:
        with pytest.raises(Refused, match=f"carico:node:{NODES[0]} is needed, got carico:node:{NODES[1]}"):
            asyncio.run(report(deployed, tmp_path, process.report_port, NODES[1], NODES[0], 3.0))
        asyncio.run(report(deployed, tmp_path, process.report_port, NODES[1], NODES[1], 3.0))
        assert [known["node"] for known in process.extender.nodes()] == [NODES[1]]


def test_no_account_can_read_the_cas_key(deployed):
    for account in ("carico-scheduler", "carico-extender", "carico-signer", "carico-aggregator", "carico-agent"):
        for secret in ("carico-ca", "carico-nodes-ca"):
            with deployed.acting_as(account) as core, pytest.raises(ApiException) as refused:
                core.read_namespaced_secret(secret, NAMESPACE)
            assert refused.value.status == 403
