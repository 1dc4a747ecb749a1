"""The provider external on a user's own cluster: here a KWOK cluster with a namespace and a pod of the user."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import kubernetes.client
import kubernetes.config
import pytest
import yaml

from carico.deployment.manifests import NAMESPACE as CARICO
from carico.deployment.manifests import lease
from testbed.cluster_options import ClusterOptions
from testbed.errors import UsageError
from testbed.real.api import ClusterApi
from testbed.real.external.cluster import ExternalCluster
from testbed.real.external.heartbeat import SILENCE_S
from testbed.real.external.platform import ExternalPlatform
from testbed.real.kwok import maker as kwok
from testbed.real.kwok.platform import fake_pod_spec, shape_nodes
from testbed.real.lifecycle import MadeCluster, connected
from testbed.real.namespaces import TESTBED_NAMESPACE, wait_until_pods_can_be_created
from testbed.real.registry import Registry
from testbed.real.waiting import wait_until
from testbed.results.store import read_results
from testbed.schedulers.spec import parse_spec
from workloads.scenario import ClusterShape, JobSpec, Scenario

pytestmark = pytest.mark.cluster

NODES = 3
USED = 2
THEIRS = "theirs"
IMAGE = "none.example/w:1"
ENDING, ENDLESS = "pi", "endless"
"""Names of jobs; pods of the second never end."""
PATIENCE_S = 180.0
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "external-cluster.md"
ROLES = {
    role["kind"]: role
    for role in map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE))
}
"""The documented roles, by kind."""
RIGHTS = [
    (verb, resource, group)
    for rule in ROLES["ClusterRole"]["rules"]
    for group in rule["apiGroups"]
    for resource in rule["resources"]
    for verb in rule["verbs"]
]
RIGHTS_TIMEOUT_S = 60.0
"""API servers apply roles a moment after their creation."""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    """A user's own cluster with a pod of theirs on the last node; pods of `ENDING` end after a second."""
    place = tmp_path_factory.mktemp("user")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(kwok, "_stages", _ending(kwok._stages()).__str__)
    life = MadeCluster(kwok.KwokMaker(), ClusterOptions("user"), Registry(place / "clusters"))
    try:
        cluster = life.open()
        shape_nodes(cluster.api, ClusterShape(nodes=NODES, cores=4))
        cluster.api.objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": THEIRS}})
        wait_until_pods_can_be_created(cluster.api, THEIRS)
        spec = fake_pod_spec() | {"nodeName": f"node-{NODES - 1}"}
        cluster.api.create_pod(THEIRS, {"metadata": {"name": "service"}, "spec": spec})
        yield cluster.kubeconfig
    finally:
        life.close()
        monkeypatch.undo()


def _ending(stages):
    """Return KWOK's stages, changed so that pods of one Job end without an annotation."""
    documents = list(yaml.safe_load_all(stages))
    complete = next(one for one in documents if one["metadata"]["name"] == "carico-pod-complete")
    *others, _ = complete["spec"]["selector"]["matchExpressions"]
    job = '.metadata.labels["batch.kubernetes.io/job-name"]'
    complete["spec"]["selector"]["matchExpressions"] = [
        *others,
        {"key": job, "operator": "In", "values": [f"{ENDING}-0"]},
    ]
    complete["spec"]["delay"] = {"durationMilliseconds": 1000}
    return yaml.safe_dump_all(documents)


@pytest.fixture
def api(kubeconfig):
    api = connected(kubeconfig)
    yield api
    api.close()


@pytest.fixture
def started(kubeconfig, tmp_path):
    """A function that starts `carico-testbed run` on the cluster; processes that still run at the end are killed."""
    processes = []

    def start(name, *options, job=ENDING, limit_s=120):
        folder = tmp_path / name
        folder.mkdir()
        scenario = folder / "some.yaml"
        scenario.write_text(
            yaml.safe_dump(
                {
                    "name": "some",
                    "description": "a job of six pods",
                    "jobs": [{"name": job, "workload": "pi", "pods": 6, "requests": {"cpu": "100m"}}],
                    "cluster": {"nodes": USED},
                    "limit_s": limit_s,
                }
            )
        )
        command = [sys.executable, "-m", "testbed", "run", str(scenario), "--scheduler", "kube-scheduler"]
        command += ["--provider", "external", "--kubeconfig", str(kubeconfig), "--workload-image", IMAGE]
        process = subprocess.Popen(
            [*command, "--quiet", "--json", "result.json", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process, folder / "result.json"

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def everything(api: ClusterApi):
    """Return all namespaces, the UIDs of all pods, and the specs of all nodes."""
    objects = api.objects
    namespaces = {one["metadata"]["name"] for one in objects.list("v1", "Namespace")}
    pods = {(one["metadata"]["namespace"], one["metadata"]["uid"]) for one in objects.list("v1", "Pod")}
    nodes = {one["metadata"]["name"]: one["spec"] for one in api.nodes()}
    return namespaces, pods, nodes


def ours(api: ClusterApi):
    """Return the namespaces of runs, without the one of the cluster's maker, which plays the user here."""
    return sorted({one["metadata"]["name"] for one in api.namespaces()} - {TESTBED_NAMESPACE})


def wait_for_pods(api: ClusterApi):
    def lacking() -> str:
        return "" if any(api.pods_in(name).list()[0] for name in ours(api)) else f"only {ours(api)}"

    wait_until("the run has pods", lacking, PATIENCE_S)


def test_a_run_uses_its_nodes_and_leaves_the_cluster_as_it_was(api, started):
    before = everything(api)
    process, results = started("run")
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out
    assert everything(api) == before
    (run,) = read_results(results).repetitions
    assert [pod.outcome for pod in run.pods] == ["succeeded"] * 6
    assert {pod.node for pod in run.pods} <= {"node-0", "node-1"}
    assert run.settings["allocatable"]["node-1"] == {
        "node": "node-1",
        "millicpu": 4000,
        "memory_bytes": 8 << 30,
        "pods": 110,
    }
    assert run.settings["kubernetes_version"].startswith("v1.")


def test_ctrl_c_leaves_the_cluster_as_it_was(api, started):
    before = everything(api)
    process, _ = started("interrupted", "--repetitions", "50")
    wait_for_pods(api)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, out
    assert everything(api) == before


def test_the_next_run_removes_the_namespaces_of_a_killed_one(api, started):
    before = everything(api)
    process, _ = started("killed", "--repetitions", "50")
    wait_for_pods(api)
    process.kill()
    process.wait()
    assert ours(api)
    following, _ = started("following")
    out, _ = following.communicate(timeout=SILENCE_S + PATIENCE_S)
    assert following.returncode == 0, out
    assert everything(api) == before


def test_simultaneous_runs_leave_one_another_alone(api, started):
    before = everything(api)
    first, results = started("first", "--repetitions", "4")
    wait_for_pods(api)
    second, _ = started("second")
    second_out, _ = second.communicate(timeout=2 * PATIENCE_S)
    first_out, _ = first.communicate(timeout=2 * PATIENCE_S)
    assert (first.returncode, second.returncode) == (0, 0), first_out + second_out
    assert len(read_results(results).repetitions) == 4
    assert everything(api) == before


def test_a_scenario_that_wants_more_nodes_is_refused_at_once(api, started):
    process, _ = started("many", "--nodes", str(NODES + 1))
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert f"some wants {NODES + 1} nodes" in out
    assert ours(api) == []


def grant(api: ClusterApi, role):
    """Grant a role to the account of `limited`."""
    kind, metadata = role["kind"], role["metadata"]
    binding = {"apiVersion": role["apiVersion"], "kind": f"{kind}Binding", "metadata": metadata}
    binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "limited", "namespace": THEIRS}]
    for thing in (role, binding):
        api.objects.apply(thing)


def problems(kubeconfig):
    """Return the problems that the preflight finds with a kubeconfig."""
    cluster = ExternalCluster(ClusterOptions("limited", kubeconfig=kubeconfig))
    try:
        return "; ".join(map(str, cluster.preflight()))
    finally:
        cluster.close()


@pytest.fixture
def limited(kubeconfig, api, tmp_path):
    """The kubeconfig of an account that has only the documented rights in all namespaces."""
    account = {"name": "limited", "namespace": THEIRS}
    api.objects.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    grant(api, ROLES["ClusterRole"])
    with kubernetes.config.new_client_from_config(str(kubeconfig)) as client:
        core = kubernetes.client.CoreV1Api(client)
        token = core.create_namespaced_service_account_token(*account.values(), {"spec": {}}).status.token
    content = yaml.safe_load(kubeconfig.read_text())
    content["users"] = [{"name": user["name"], "user": {"token": token}} for user in content["users"]]
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    wait_until("the preflight finds no problems", lambda: problems(file), RIGHTS_TIMEOUT_S)
    return file


def test_the_documented_rights_suffice_for_a_run(api, started, limited):
    before = everything(api)
    process, results = started("limited", "--kubeconfig", str(limited))
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out
    assert "carico-testbed:" not in out, "neither a warning nor diagnostics"
    assert everything(api) == before
    (run,) = read_results(results).repetitions
    assert [pod.outcome for pod in run.pods] == ["succeeded"] * 6


def test_the_documented_rights_suffice_for_diagnostics(api, started, limited):
    before = everything(api)
    process, results = started("limited", "--kubeconfig", str(limited), job=ENDLESS, limit_s=10)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out
    assert everything(api) == before
    (folder,) = results.parent.glob(".carico/runs/*/diagnostics/*")
    assert len(json.loads((folder / "pods.json").read_text())) == 6
    assert json.loads((folder / "events.json").read_text())
    assert not (folder / "lacking.txt").exists()


@pytest.mark.parametrize(("verb", "resource", "group"), RIGHTS)
def test_a_missing_right_is_named_before_anything_runs(api, limited, verb, resource, group):
    others = [right for right in RIGHTS if right != (verb, resource, group)]
    rules = [{"verbs": [one], "resources": [of], "apiGroups": [within]} for one, of, within in others]
    grant(api, ROLES["ClusterRole"] | {"rules": rules})
    problem = f"does not let you {verb} {resource}{'.' if group else ''}{group} in all namespaces"

    def lacking() -> str:
        found = problems(limited)
        return "" if problem in found else f"the preflight finds: {found}"

    wait_until(f"the cluster {problem}", lacking, RIGHTS_TIMEOUT_S)


def test_the_documented_rights_suffice_to_check_carico(api, limited):
    """The check succeeds up to the leader's pod, which does not exist here."""
    held = {"holderIdentity": "gone_0", "leaseDurationSeconds": 3600}
    held["renewTime"] = datetime.now(UTC).isoformat(timespec="microseconds")
    configuration = {"name": "carico-agent", "namespace": CARICO}
    for thing in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CARICO}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": configuration},
        lease(CARICO) | {"spec": held},
    ):
        api.objects.apply(thing)
    some = Scenario("some", "one pod", [JobSpec("pi", "pi", pods=1)], ClusterShape(nodes=USED))
    kube = parse_spec("kube-scheduler")
    cluster = ExternalCluster(ClusterOptions("limited", kubeconfig=limited))
    nodes = ExternalPlatform(cluster, IMAGE)

    def asks_agents():
        return nodes.check(some, kube, {}).prepare(cluster.open()).telemetry is not None

    try:
        assert not asks_agents()
        grant(api, ROLES["Role"])
        wait_until("agents are asked", lambda: "" if asks_agents() else "they are not", RIGHTS_TIMEOUT_S)
        with pytest.raises(UsageError, match='pods "gone" not found'):
            nodes.check(some, parse_spec("carico"), {})
    finally:
        cluster.close()
