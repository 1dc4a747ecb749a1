"""The user's own cluster: the checks before a run, the run, and that nothing but the run's own objects is touched."""

import itertools
import re
import time

import msgspec
import pytest
import yaml

from carico.deployment.status import DeploymentStatus, Node
from carico.errors import KubeRefused, KubeUnreachable
from testbed.cli import main
from testbed.cluster_options import ClusterOptions
from testbed.errors import UNPREPARED, ClusterError, InvalidSetting, InvalidSpec, UsageError
from testbed.real.api import HEARTBEAT, RUN_LABEL
from testbed.real.external import heartbeat
from testbed.real.external.cluster import ExternalCluster
from testbed.real.external.platform import ExternalPlatform
from testbed.real.provider import RealProvider
from testbed.real.waiting import wait_until
from testbed.schedulers.spec import parse_spec
from workloads.scenario import ClusterShape, JobSpec, Scenario

IMAGE = "registry.example/workloads:1"
KUBE = parse_spec("kube-scheduler")
PI = JobSpec("pi", "pi", pods=3)
SMALL = Scenario("small", "three pods", [PI], ClusterShape(nodes=1))
NAMESPACES = "/api/v1/namespaces"


class HurriedClock:
    """A clock that advances a second each time it is read."""

    def __init__(self):
        self._seconds = itertools.count()

    def now(self):
        return float(next(self._seconds))


def node(name, cpu="2", ready="True", **spec):
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"host-of-{name}"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "50"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def namespace(name, **labels):
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}}


@pytest.fixture
def said():
    return []


@pytest.fixture
def cluster(server, api, tmp_path, said, monkeypatch):
    monkeypatch.setattr("testbed.real.waiting.POLL_S", 0.005)
    control_plane = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    preferred = [{"key": "old", "effect": "PreferNoSchedule"}]
    for one in (
        node("a-control-plane", taints=control_plane),
        node("b-broken", ready="False"),
        node("c-cordoned", unschedulable=True),
        node("d-small", "1500m", taints=preferred),
        node("e-large", "3"),
    ):
        server.put(f"/api/v1/nodes/{one['metadata']['name']}", **one)
    server.put(f"{NAMESPACES}/theirs", **namespace("theirs", team="other"))
    options = ClusterOptions(
        "run-1", say=said.append, kubeconfig=tmp_path / "kubeconfig", context="there", workload_image=IMAGE
    )
    return ExternalCluster(options, lambda kubeconfig, context: api, HurriedClock(), beat_s=0.01)


@pytest.fixture
def provider(cluster, said, monkeypatch):
    monkeypatch.setattr("testbed.real.run.SLOW_LOOK_S", 0.05)
    options = ClusterOptions("run-1", say=said.append)
    provider = RealProvider(cluster, ExternalPlatform(cluster, IMAGE), options)
    yield provider
    provider.close()


def names(server):
    return [one["metadata"]["name"] for one in server.within(NAMESPACES) if one["metadata"].get("uid")]


def test_a_scenario_runs_on_the_existing_nodes_and_leaves_nothing(provider, server, api):
    jobs = []
    create = api.create_job
    api.create_job = lambda where, job: (jobs.append(job), create(where, job))
    run = provider.check(SMALL, KUBE, {}).run(1)
    assert [pod.outcome for pod in run.pods] == ["succeeded"] * 3
    spec = jobs[0]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (IMAGE, "IfNotPresent")
    selected = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-of-d-small"]}
    assert selected == [{"matchExpressions": [expression]}]
    assert run.settings["allocatable"] == {
        "node-0": {"node": "d-small", "millicpu": 1500, "memory_bytes": 1 << 30, "pods": 50}
    }
    # The scenario's description of nodes does not apply here.
    assert run.settings["cores"] is run.settings["memory"] is None
    provider.close()
    assert names(server) == ["theirs"]
    changed = {asked.path for asked in server.asked if asked.method in ("DELETE", "PATCH")}
    assert {path.partition("namespaces/")[2].partition("/")[0] for path in changed} == {"carico-0-run-1"}


def test_the_logs_of_carico_are_collected(cluster, server, tmp_path):
    metadata = {"name": "carico-scheduler-0", "namespace": "carico", "uid": "1", "resourceVersion": "1"}
    spec = {"containers": [{"name": "extender"}, {"name": "kube-scheduler"}]}
    pod = {"metadata": metadata, "spec": spec, "status": {}}
    server.put("/api/v1/namespaces/carico/pods/carico-scheduler-0", **pod)
    server.log = "listening\n"
    cluster.collect_logs(cluster.open(), tmp_path)
    kept = {file.name: file.read_text() for file in (tmp_path / "logs").iterdir()}
    assert kept == dict.fromkeys(
        ("carico-scheduler-0.extender.log", "carico-scheduler-0.kube-scheduler.log"), "listening\n"
    )


def test_a_placement_selects_among_the_nodes_of_the_scenario(provider, api):
    jobs = []
    create = api.create_job
    api.create_job = lambda where, job: (jobs.append(job), create(where, job))
    wanted = msgspec.structs.replace(
        SMALL, jobs=[msgspec.structs.replace(PI, placement="rest")], cluster=ClusterShape(nodes=2)
    )
    provider.check(wanted, KUBE, {}).run(1)
    affinity = jobs[0]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["host-of-d-small", "host-of-e-large"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["d-small"]}]


def test_ctrl_c_leaves_nothing(provider, server):
    def press(progress):
        if progress.phase == "running":
            raise KeyboardInterrupt

    server.ending = ""
    with pytest.raises(KeyboardInterrupt):
        provider.check(SMALL, KUBE, {}).run(1, press)
    provider.close()
    assert names(server) == ["theirs"]


def test_namespaces_of_dead_runs_are_removed_and_those_of_living_runs_stay(cluster, server, said):
    server.put(f"{NAMESPACES}/dead", **namespace("dead", **{RUN_LABEL: "killed"}))
    server.put(f"{NAMESPACES}/alive", **namespace("alive", **{RUN_LABEL: "neighbour"}))
    server.put(f"{NAMESPACES}/mine", **namespace("mine", **{RUN_LABEL: "run-1"}))
    server.put(f"{NAMESPACES}/carico-testbed", **namespace("carico-testbed", **{RUN_LABEL: "who-made-the-cluster"}))
    beating = heartbeat.Heartbeat(cluster.api, "neighbour", 0.01)
    beating.start()
    try:
        for _ in range(2):
            cluster.clean()
            assert names(server) == ["alive", "carico-testbed", "theirs"]
    finally:
        beating.stop()
    assert said == ["run neighbour measures on this cluster, too: the two disturb each other"]
    cluster.close()


def test_the_wait_for_another_runs_sign_of_life_ends_with_its_namespace(cluster, server):
    server.put(f"{NAMESPACES}/other", **namespace("other", **{RUN_LABEL: "other"}))
    wait = itertools.count()
    listed = cluster.api.namespaces

    def ending():
        if next(wait) == 2:
            cluster.api.delete_namespace("other")
        return listed()

    cluster.api.namespaces = ending
    cluster.clean()
    assert next(wait) < heartbeat.SILENCE_S
    cluster.close()


def test_it_sends_heartbeats_from_the_first_use_to_the_end(cluster, server):
    cluster.open()
    cluster.api.create_namespace("carico-0-run-1", "run-1")

    def sign():
        found = server.objects.get(f"{NAMESPACES}/carico-0-run-1", {})
        return found.get("metadata", {}).get("annotations", {}).get(HEARTBEAT)

    wait_until("there is a sign", lambda: "" if sign() else "none", 5.0)
    first = sign()
    wait_until("there is another", lambda: "" if sign() != first else "none", 5.0)
    assert HEARTBEAT not in server.objects[f"{NAMESPACES}/theirs"]["metadata"].get("annotations", {})
    cluster.close()
    assert names(server) == ["theirs"]


def test_a_namespace_of_our_name_without_our_label_is_left_alone(provider, server, api):
    server.put(f"{NAMESPACES}/carico-0-run-1", **namespace("carico-0-run-1"))
    api.delete_namespace("carico-0-run-1")
    assert "carico-0-run-1" in names(server)


def test_the_preflight_checks_what_a_run_needs_and_changes_nothing(cluster, server):
    before = dict(server.objects)
    assert cluster.preflight() == []
    for name in ("d-small", "e-large"):
        server.objects.pop(f"/api/v1/nodes/{name}")
    (problem,) = cluster.preflight()
    assert "cluster there has 3 nodes, none of them ready and open to any pod" in str(problem)
    assert set(server.objects) < set(before)


@pytest.mark.parametrize(("off_s", "told"), [(5.0, "behind"), (-5.0, "ahead of"), (1.0, None)])
def test_a_cluster_whose_clock_differs_is_refused(cluster, api, tmp_path, off_s, told):
    """A pod's times come from whichever clock is earlier, so a difference of seconds would go unnoticed."""
    options = ClusterOptions("run-1", kubeconfig=tmp_path / "kubeconfig", context="there")
    here = ExternalCluster(options, lambda kubeconfig, context: api, wall=lambda: time.time() + off_s)
    problems = [str(problem) for problem in here.preflight()]
    if told is None:
        assert problems == []
        return
    (problem,) = problems
    assert re.match(rf"the clock of cluster there is [45]\.. s {told} this machine's, at most 2 s are wanted", problem)
    assert "by NTP" in problem


@pytest.mark.parametrize(("off_s", "problems"), [(0.0, 0), (30.0, 1)])
def test_a_slow_answer_neither_feigns_nor_hides_a_difference_of_clocks(cluster, api, tmp_path, off_s, problems):
    asked_at = time.time() + off_s
    wall = iter([asked_at, asked_at + 6.0])
    options = ClusterOptions("run-1", kubeconfig=tmp_path / "kubeconfig", context="there")
    here = ExternalCluster(options, lambda kubeconfig, context: api, wall=lambda: next(wall))
    assert len(here.preflight()) == problems


def test_a_server_without_a_valid_date_is_a_problem(cluster, server, monkeypatch):
    monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", lambda handler: "soon")
    (problem,) = cluster.preflight()
    assert "the Date header of the Kubernetes API is 'soon'" in str(problem)


def test_a_missing_right_to_create_namespaces_is_a_problem(cluster, api, monkeypatch):
    def refuse(*namespace, only_try):
        raise KubeRefused("the Kubernetes API answered 403: namespaces is forbidden", 403)

    monkeypatch.setattr(api, "create_namespace", refuse)
    (problem,) = cluster.preflight()
    assert "cluster there cannot be used: the Kubernetes API answered 403" in str(problem)
    assert "kubectl create namespace" in str(problem)


def test_missing_rights_are_named_before_anything_runs(cluster, server):
    server.forbidden = {"patch namespaces", "watch pods", "create jobs"}
    (problem,) = cluster.preflight()
    lacking = "patch namespaces, watch pods, create jobs.batch"
    assert f"cluster there does not let you {lacking} in all namespaces" in str(problem)
    assert "docs/how-to/external-cluster.md" in str(problem)


def test_a_refused_check_of_rights_is_no_problem(cluster, api, monkeypatch):
    def refuse(verb, resource):
        raise KubeRefused("the Kubernetes API answered 403", 403)

    monkeypatch.setattr(api, "may", refuse)
    assert cluster.preflight() == []


class Refusing:
    """A cluster that answers heartbeats with the given errors, one after the other, and records later ones."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.shown = []

    def namespaces(self):
        return [namespace("mine", **{RUN_LABEL: "run-1"})]

    def show_alive(self, name, sign):
        if self.errors:
            raise self.errors.pop(0)
        self.shown.append(sign)


def messages_after(*errors):
    """Return the messages while a cluster answers with errors, until it accepts a sign again."""
    api, said = Refusing(*errors), []
    beating = heartbeat.Heartbeat(api, "run-1", 0.001, said.append)
    beating.start()
    wait_until("there is a sign", lambda: "" if api.shown else "none", 5.0, 0.001)
    beating.stop()
    return said


@pytest.mark.parametrize("status", [404, 409, 429, 500, 503])
def test_heartbeats_go_on_after_passing_errors_without_a_message(status):
    assert messages_after(KubeRefused("not now", status), KubeUnreachable("no answer")) == []


def test_a_run_whose_signs_are_refused_says_so_once_and_keeps_trying():
    (said,) = messages_after(*[KubeRefused("403: namespaces is forbidden", 403)] * 3)
    assert said == (
        "run run-1 cannot show that it is alive, so other runs on this cluster will remove its namespaces after 30 s: "
        "403: namespaces is forbidden; it must be allowed to list and patch namespaces"
    )


def test_a_cluster_that_cannot_be_reached_is_a_problem(tmp_path):
    cluster = ExternalCluster(ClusterOptions("run-1", kubeconfig=tmp_path / "gone"))
    (problem,) = cluster.preflight()
    assert "gone leads to no cluster" in str(problem)
    with pytest.raises(ClusterError, match="gone leads to no cluster"):
        cluster.open()
    cluster.close()


def test_a_server_that_does_not_answer_ends_a_run_in_one_plain_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}], "
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]}"
    )
    external = ["--provider", "external", "--kubeconfig", str(kubeconfig), "--workload-image", IMAGE]
    assert main(["run", "pi-two-nodes", *external]) == UNPREPARED
    assert capsys.readouterr().err == (
        f"carico-testbed: the kubeconfig {kubeconfig} leads to no cluster: the Kubernetes API cannot be reached at "
        f"http://127.0.0.1:9: Connection refused\n"
    )


@pytest.mark.parametrize(
    ("changes", "scheduler", "settings", "error", "told"),
    [
        (
            {"cluster": ClusterShape(nodes=3)},
            "kube-scheduler",
            {},
            UsageError,
            "small wants 3 nodes, cluster there has 2",
        ),
        ({}, "kube-scheduler", {"agents": "false"}, InvalidSetting, "has no settings, got agents"),
        ({}, "kube-scheduler:cpu=2", {}, InvalidSpec, "at most 1500m"),
        ({}, "carico", {}, UsageError, "CARICO is not deployed in the namespace carico: run `carico deploy`"),
        ({"jobs": [msgspec.structs.replace(PI, work=[1.0] * 3)]}, "kube-scheduler", {}, UsageError, "leave out `work`"),
    ],
)
def test_what_it_cannot_run_is_refused(provider, server, changes, scheduler, settings, error, told):
    with pytest.raises(error, match=told):
        provider.check(msgspec.structs.replace(SMALL, **changes), parse_spec(scheduler), settings)
    assert names(server) == ["theirs"]


def test_without_an_image_the_message_says_how_to_build_and_push_one(cluster):
    with pytest.raises(
        UsageError, match=r"images build workloads prints.*docker push REGISTRY/workloads:1.*--workload-image"
    ):
        ExternalPlatform(cluster, None).check(SMALL, KUBE, {})
    trained = msgspec.structs.replace(SMALL, jobs=[JobSpec("mlp", "mlp", pods=1)])
    with pytest.raises(UsageError, match="images build workloads-sklearn"):
        ExternalPlatform(cluster, None).check(trained, KUBE, {})


def test_a_node_that_has_gone_since_the_check_is_an_error(cluster, server):
    platform = ExternalPlatform(cluster, IMAGE)
    setup = platform.check(SMALL, KUBE, {})
    server.objects.pop("/api/v1/nodes/d-small")
    with pytest.raises(ClusterError, match="d-small can take no pods any more"):
        setup.prepare(cluster.open())
    cluster.close()


class Deployed:
    """The configuration of deployed agents."""

    def __init__(self, variant):
        self.variant = variant

    def read(self, thing):
        return {"data": {"agent.yaml": yaml.safe_dump({"variant": self.variant})}}


@pytest.mark.parametrize(("asked", "refused"), [("thesis-literal", ""), ("thesis-rebased", "run the variant thesis-l")])
def test_only_the_deployed_variant_of_carico_can_be_tested(cluster, monkeypatch, asked, refused):
    nodes = [Node("d-small", agent_ready=True, stale=False), Node("a-control-plane", agent_ready=False)]
    status = DeploymentStatus("carico", "leader", [], nodes, ["1 of 2 nodes do not report: a-control-plane"])
    monkeypatch.setattr("testbed.real.external.platform.read_status", lambda *asked: status)
    monkeypatch.setattr(type(cluster.api), "objects", Deployed("thesis-literal"))
    platform, spec = ExternalPlatform(cluster, IMAGE), parse_spec(f"carico:variant={asked}")
    if refused:
        with pytest.raises(UsageError, match=refused):
            platform.check(SMALL, spec, {})
        return
    prepared = platform.check(SMALL, spec, {}).prepare(cluster.open())
    assert (spec.scheduler_name, prepared.names) == ("carico", {"d-small": "node-0"})
    assert prepared.telemetry is not None
    cluster.close()
