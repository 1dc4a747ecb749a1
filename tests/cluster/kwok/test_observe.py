"""`carico deploy --observe` on a real API server: agents alone, no pod is scheduled, `carico costs` gives the table.

KWOK's pods run no programs. So the extender runs on this machine, with its pod's account, certificate and settings, and
its pod is given this machine's address: `carico costs` reaches it through the API server, as on any cluster. Nodes
report what the annotations of their pods say.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from contextlib import ExitStack, closing, contextmanager

import msgspec
import pytest

from carico.clock import SystemClock
from carico.config import ExtenderConfig, JournalConfig, KubernetesConfig
from carico.extender.process import ExtenderProcess
from carico.kube.client import KubeClient
from carico.kube.reflector import Reflector
from testbed.real.kwok.synthetic_demand import CORES, GIB, NodeSize
from testbed.real.kwok.synthetic_reports import SyntheticReports
from testbed.real.waiting import wait_until

from .deployed import NAMESPACE, Cluster
from .test_deploy import account_token, address_of_this_machine, kubeconfig_with

pytestmark = pytest.mark.cluster

NODES = ["observe-node-0", "observe-node-1"]
PODS = ["web-0", "web-1", "web-2"]
THEIRS = "observed"
"""A namespace of pods that the cluster's own scheduler has placed."""
REPLICA = "carico-scheduler-0"
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def deployed(carico_cluster):
    """A cluster that CARICO observes."""
    cluster = Cluster(carico_cluster.kubeconfig)
    for node in NODES:
        cluster.add_node(node)
    cluster.core.create_namespace({"metadata": {"name": THEIRS}})
    try:
        code, out = cluster.carico("deploy", "--observe", "--wait", "180")
        assert code == 0, out
        yield cluster
    finally:
        cluster.carico("undeploy", "--wait", "180")
        cluster.core.delete_namespace(THEIRS)
        for node in NODES:
            cluster.remove_node(node)


def observed(name, node):
    """A pod that demands 0.25 cores and 0.5 GiB, and requests four times as much."""
    resources = {"requests": {"cpu": "1", "memory": "2Gi"}}
    return {
        "metadata": {"name": name, "annotations": {CORES: "0.25", GIB: "0.5"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "web", "image": "none", "resources": resources}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


@contextmanager
def extender(deployed, folder, monkeypatch, journal=None):
    """Run the extender of `REPLICA`, as a new pod: without a checkpoint."""
    monkeypatch.setattr(socket, "gethostname", lambda: REPLICA)
    monkeypatch.setenv("NAMESPACE", NAMESPACE)
    config = msgspec.convert(deployed.configuration_file("scheduler", "extender.yaml"), ExtenderConfig)
    kubeconfig = kubeconfig_with(deployed, account_token(deployed), "carico-extender", folder)
    (folder / "key").write_bytes(deployed.secret("carico-status-key")["key"])
    config = msgspec.structs.replace(
        config,
        host="127.0.0.1",
        report_host=None,
        port=0,
        report_port=0,
        tls=deployed.server_files("extender", folder / "extender"),
        kubernetes=KubernetesConfig(str(kubeconfig)),
        journal=journal,
        checkpoint=None,
        status=msgspec.structs.replace(config.status, host="0.0.0.0", port=0, key=str(folder / "key")),
    )
    with (
        closing(KubeClient.from_config(str(kubeconfig))) as kube,
        ExtenderProcess(config, SystemClock(), random.Random(1), kube) as process,
    ):
        here = address_of_this_machine()
        address = {"podIP": here, "podIPs": [{"ip": here}]}
        deployed.core.patch_namespaced_pod_status(
            REPLICA, NAMESPACE, {"status": address}, _content_type="application/merge-patch+json"
        )
        monkeypatch.setattr("carico.deployment.status.STATUS_PORT", process.status_port)
        yield process


@contextmanager
def agents(deployed, folder, port):
    """Let every node of the test report what it demands."""
    reports = SyntheticReports(
        f"localhost:{port}",
        lambda node: deployed.node_files(node, folder / "nodes"),
        dict.fromkeys(NODES, 8.0),
        SystemClock(),
        lambda: 0.0,
        dict.fromkeys(NODES, NodeSize(32.0, 256.0)),
    )
    loop = asyncio.new_event_loop()
    running = loop.create_task(reports.run(1.0))
    with ExitStack() as opened:
        kube = opened.enter_context(closing(KubeClient.from_config(str(deployed.kubeconfig))))
        pods = kube.pods("spec.nodeName!=")
        opened.enter_context(
            Reflector(pods, reports.pod_changed, SystemClock(), random.Random(1), deleted=reports.pod_deleted)
        )
        thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([running])))
        thread.start()
        opened.callback(loop.close)
        opened.callback(thread.join)
        opened.callback(loop.call_soon_threadsafe, running.cancel)
        yield


def costs(deployed, *arguments):
    code, out = deployed.carico("costs", *arguments)
    assert code == 0, out
    return out


def of_web(deployed):
    found = json.loads(costs(deployed, "--json"))["workloads"]
    return next((each for each in found if each["workload"].startswith(f"{THEIRS}/web-")), None)


def test_agents_run_alone_and_nothing_is_scheduled(deployed):
    pods = deployed.core.list_namespaced_pod(NAMESPACE).items
    by_component = {pod.metadata.labels["app.kubernetes.io/component"]: pod for pod in pods}
    assert sorted(by_component) == ["agent", "scheduler"]
    assert [container.name for container in by_component["scheduler"].spec.containers] == ["extender", "signer"]
    assert not deployed.may("carico-scheduler", "create", "", "pods", subresource="binding", namespace=THEIRS)
    assert not deployed.may("carico-extender", "patch", "", "nodes")
    _, out = deployed.carico("status")
    assert "observing: nothing is scheduled" in out
    assert "no kube-scheduler leads" not in out


def test_the_table_shows_what_pods_demand_and_a_new_pod_of_the_extender_remembers_it(
    deployed, tmp_path, monkeypatch, carico_paper
):
    def known():
        web = of_web(deployed)
        return "" if web is not None and web["pods"] == len(PODS) else f"the table has {web}"

    with extender(deployed, tmp_path, monkeypatch) as process, agents(deployed, tmp_path, process.report_port):
        # Pods show what they cost when they start.
        for number, name in enumerate(PODS):
            deployed.core.create_namespaced_pod(THEIRS, observed(name, NODES[number % 2]))
        wait_until("`carico costs` shows the workload", known, TIMEOUT_S)
        before = {pod.metadata.name: pod.to_dict() for pod in deployed.core.list_namespaced_pod(THEIRS).items}
        row = next(line for line in costs(deployed).splitlines() if line.startswith(f"{THEIRS}/web-"))
        assert "Pod/web-0 and 2 more" in row
        assert row.split()[5:7] == ["3", "2"], "pods, nodes"
        assert "0.25 ± " in row
        assert "cores wasted" in row
        _, status = deployed.carico("status")
        assert "running, 0 waiting, 0 of these of unknown cost; 0 more remembered" in status
        by_node = json.loads(costs(deployed, "--by-node", "--json"))["workloads"]
        assert {each["node"] for each in by_node if each["workload"].startswith(THEIRS)} == set(NODES)
        # Within seconds little experience gathers.
        wait_until("it has run for a while", lambda: "" if remembered(process) else "not noted yet", TIMEOUT_S)
    after = {pod.metadata.name: pod.to_dict() for pod in deployed.core.list_namespaced_pod(THEIRS).items}
    assert after == before, "pods are not touched"

    # An upgrade: `carico deploy` again, and another pod with another extender, to which no agent reports.
    code, out = deployed.carico("deploy", "--observe", "--wait", "60")
    assert code == 0, out
    with extender(deployed, tmp_path, monkeypatch):
        web = of_web(deployed)
    assert web is not None, "the ConfigMap has been reset"
    assert web["cores"] == pytest.approx(0.25, abs=0.01)
    assert (web["pods"], web["last_requested_cores"], web["last_requested_gib"]) == (0, 1.0, 2.0)
    carico_paper.row("cores that a new extender remembers of a pod of 0.25", web["cores"], None, "cores")


def remembered(process):
    return any(name.startswith(THEIRS) for name in process.extender.state()["cpu"])


def test_explain_reaches_the_extender_through_the_api_server(deployed, tmp_path, monkeypatch, capsys):
    journal = tmp_path / "journal.jsonl"
    entry = {"schema_version": 1, "at": 1.9e9, "pod": {"name": "web-9", "uid": "u9", "namespace": THEIRS}}
    journal.write_text(json.dumps(entry | {"choice": None, "stale_after_s": 5.0, "candidates": []}) + "\n")
    with extender(deployed, tmp_path, monkeypatch, journal=JournalConfig(str(journal))):
        code, out = deployed.carico("explain", f"{THEIRS}/web-9")
        assert (code, "→ no node" in out, f"by {REPLICA}" in out) == (0, True, True), out
        assert deployed.carico("explain", "nobody")[0] == 1
    assert "carico-scheduler-1 does not say what it decided" in capsys.readouterr().err
