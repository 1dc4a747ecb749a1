"""The provider external on a cluster that somebody has: here KWOK's, with namespaces and pods that are not ours."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import yaml

from testbed.clusters import kwok
from testbed.clusters.api import ClusterApi
from testbed.clusters.fake_nodes import fake_pod_spec, shape_nodes
from testbed.clusters.lifecycle import ClusterLife, connected
from testbed.clusters.namespaces import OWN, wait_until_pods_can_be_created
from testbed.clusters.registry import Registry
from testbed.clusters.signs_of_life import SILENCE_S
from testbed.clusters.waiting import wait_until
from testbed.clusters.wishes import Wishes
from testbed.results.store import read_results
from workloads.scenario import ClusterShape

pytestmark = pytest.mark.cluster

NODES = 3
USED = 2
THEIRS = "theirs"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    """A cluster of somebody, whose every pod of a Job ends after a second, with a pod of theirs on the last node."""
    place = tmp_path_factory.mktemp("somebody")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(kwok, "_stages", _ending(kwok._stages()).__str__)
    life = ClusterLife(kwok.KwokMaker(), Wishes("somebody"), Registry(place / "clusters"))
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
    """KWOK's stages with pods of Jobs that end without being told when."""
    documents = list(yaml.safe_load_all(stages))
    complete = next(one for one in documents if one["metadata"]["name"] == "carico-pod-complete")
    *others, told = complete["spec"]["selector"]["matchExpressions"]
    job = '.metadata.labels["batch.kubernetes.io/job-name"]'
    complete["spec"]["selector"]["matchExpressions"] = [*others, {**told, "key": job}]
    complete["spec"]["delay"] = {"durationMilliseconds": 1000}
    return yaml.safe_dump_all(documents)


@pytest.fixture
def api(kubeconfig):
    api = connected(kubeconfig)
    yield api
    api.close()


@pytest.fixture
def started(kubeconfig, tmp_path):
    """A function that starts `carico-testbed run` on the cluster; what still runs in the end is killed."""
    processes = []
    scenario = tmp_path / "some.yaml"
    scenario.write_text(
        yaml.safe_dump(
            {
                "name": "some",
                "description": "pods that end after a second",
                "jobs": [{"name": "pi", "workload": "pi", "pods": 6, "requests": {"cpu": "100m"}}],
                "cluster": {"nodes": USED},
                "limit_s": 120,
            }
        )
    )

    def start(name, *options):
        folder = tmp_path / name
        folder.mkdir()
        command = [sys.executable, "-m", "testbed", "run", str(scenario), "--scheduler", "kube-scheduler"]
        command += ["--provider", "external", "--kubeconfig", str(kubeconfig), "--workload-image", "none.example/w:1"]
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
    """What there is beside our own: namespaces, nodes without their status, pods with their identity."""
    objects = api.objects
    namespaces = {one["metadata"]["name"] for one in objects.list("v1", "Namespace")}
    pods = {(one["metadata"]["namespace"], one["metadata"]["uid"]) for one in objects.list("v1", "Pod")}
    nodes = {one["metadata"]["name"]: one["spec"] for one in api.nodes()}
    return namespaces, pods, nodes


def ours(api: ClusterApi):
    """The namespaces of runs; one more is the maker's, who is somebody else here."""
    return sorted({one["metadata"]["name"] for one in api.namespaces()} - {OWN})


def wait_for_pods(api: ClusterApi):
    def lacking() -> str:
        return "" if any(api.pods_in(name).list()[0] for name in ours(api)) else f"only {ours(api)}"

    wait_until("the run has pods", lacking, PATIENCE_S)


def test_a_run_uses_the_nodes_it_asks_for_and_leaves_the_cluster_as_it_was(api, started):
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


def test_what_a_killed_run_leaves_is_removed_by_the_next(api, started):
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


def test_two_runs_at_a_time_leave_one_another_alone(api, started):
    before = everything(api)
    first, results = started("first", "--repetitions", "4")
    wait_for_pods(api)
    second, _ = started("second")
    told, _ = second.communicate(timeout=2 * PATIENCE_S)
    out, _ = first.communicate(timeout=2 * PATIENCE_S)
    assert (first.returncode, second.returncode) == (0, 0), out + told
    assert len(read_results(results).repetitions) == 4
    assert everything(api) == before


def test_a_scenario_that_wants_more_nodes_is_refused_at_once(api, started):
    process, _ = started("many", "--nodes", str(NODES + 1))
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert f"some wants {NODES + 1} nodes" in out
    assert ours(api) == []
