"""A scenario on a real cluster's API: published Jobs, measurements, clean-up and diagnostics."""

import json
import time
from dataclasses import replace
from typing import ClassVar

import msgspec
import pytest

from carico.errors import KubeRefused, KubeUnreachable
from testbed.errors import ClusterError, InvalidSetting, InvalidSpec, UsageError, WaitTimedOut
from testbed.measurement.stolen_cpu import StolenCpu
from testbed.real.api import RUN_LABEL
from testbed.real.kwok.platform import DURATIONS, KwokPlatform
from testbed.real.kwok.synthetic_demand import CORES, GIB
from testbed.schedulers.spec import parse_spec
from workloads.arrivals import Poisson, Trace
from workloads.scenario import ClusterShape, JobSpec, NodeChange, Requests, Scenario

PI = JobSpec("pi", "pi", pods=3, requests=Requests(cpu="500m"))
PRINTED = "cpu_s=1.250 began_unix_s=100.500 ended_unix_s=103.000\n"
SMALL = Scenario("small", "three pods", [PI], ClusterShape(nodes=2))
KUBE = parse_spec("kube-scheduler")
CARICO = parse_spec("carico")


def changed(job=PI, **changes):
    return msgspec.structs.replace(SMALL, jobs=[msgspec.structs.replace(job, **changes)])


def test_a_repetition_has_every_pod_from_its_creation_to_its_end(provider, monkeypatch):
    counters = iter([(0, 100), (5, 200)])  # the machine's own count hundredths of a second, and may not change at all
    monkeypatch.setattr(StolenCpu, "_counters", lambda self: next(counters))
    run = provider.check(SMALL, KUBE, {}).run(1)
    assert [pod.outcome for pod in run.pods] == ["succeeded"] * 3
    assert {pod.node for pod in run.pods} == {"node-0"}
    for pod in run.pods:
        assert 0 <= pod.created_s <= pod.scheduled_s <= pod.started_s <= pod.finished_s < 5
    assert 0 < run.job_completion_time_s["pi"] < 5
    assert {"pod_completion_time", "pod_scheduling_latency"} <= {one.labels["metric"] for one in run.data_items}
    assert [one.data for one in run.data_items if one.labels["metric"] == "machine_cpu_stolen"] == [{"value": 0.05}]
    assert run.settings["provider"] == "fake"
    assert (run.settings["kubernetes_version"], run.settings["nodes"]) == ("v1.34.4", 2)
    assert [node.name for node in run.nodes] == ["node-0", "node-1"]


def test_what_it_creates_bears_the_run_and_is_removed(provider, server, api):
    jobs = []
    create = api.create_job
    api.create_job = lambda namespace, job: (jobs.append((namespace, job)), create(namespace, job))
    provider.check(SMALL, KUBE, {}).run(1)
    ((namespace, job),) = jobs
    assert namespace == "carico-0-run-1"
    assert job["metadata"]["labels"][RUN_LABEL] == job["spec"]["template"]["metadata"]["labels"][RUN_LABEL] == "run-1"
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    assert len(job["spec"]["template"]["metadata"]["annotations"][DURATIONS].split(",")) == 3
    assert server.within(f"/api/v1/namespaces/{namespace}") == []
    assert [one["metadata"]["name"] for one in api.namespaces()] == ["carico-testbed"]


def test_it_begins_on_a_clean_cluster_and_touches_nothing_else(provider, server, api):
    provider.cluster()
    api.create_namespace("carico-left-over", "run-0")
    provider.check(SMALL, KUBE, {}).run(1)
    deleted = {asked.path for asked in server.asked if asked.method == "DELETE"}
    assert "/api/v1/namespaces/carico-left-over" in deleted
    assert "/api/v1/namespaces/carico-testbed" not in deleted


def test_the_cluster_gets_the_nodes_of_the_scenario(provider, api):
    for shape in (ClusterShape(nodes=3), ClusterShape(nodes=2, cores=8)):
        provider.check(msgspec.structs.replace(SMALL, cluster=shape), KUBE, {}).run(1)
        nodes = api.nodes()
        assert [node["metadata"]["name"] for node in nodes] == shape.node_names
        assert {node["status"]["allocatable"]["cpu"] for node in nodes} == {str(shape.cores)}
        assert not any(node["spec"].get("taints") for node in nodes)


def test_pods_are_published_when_they_arrive(provider):
    run = provider.check(changed(arrivals=Trace([0.0, 0.3, 0.3])), KUBE, {}).run(1)
    first, *later = sorted(pod.created_s for pod in run.pods)
    assert first < 0.25
    assert all(0.3 <= created < 0.6 for created in later)


def test_pods_killed_for_memory_are_distinguished_and_the_run_ends_when_its_job_fails(provider, server, said):
    server.ending, server.reason = "Failed", "OOMKilled"
    run = provider.check(SMALL, KUBE, {}).run(1)
    assert [pod.outcome for pod in run.pods] == ["oom_killed"] * 3
    assert run.job_completion_time_s == {"pi": None}


def test_pods_pending_at_the_limit_are_unfinished_and_leave_diagnostics(provider, server, said, tmp_path):
    server.ending = ""
    run = provider.check(msgspec.structs.replace(SMALL, limit_s=0.3), KUBE, {}).run(1)
    assert [pod.outcome for pod in run.pods] == ["unfinished"] * 3
    (folder,) = (tmp_path / "diagnostics").iterdir()
    assert said == [f"diagnostics: {folder}"]
    assert {path.name for path in folder.iterdir()} == {
        *("events.json", "events-carico.json", "jobs.json", "nodes.json", "pods.json", "pods-carico.json"),
        "scheduler.log",
    }
    pods = json.loads((folder / "pods.json").read_text())
    assert pods[0] == {"name": "pi-0-0-x", "node": None, "status": {"phase": "Pending"}}


def test_a_failed_preparation_leaves_diagnostics_of_carico_too(provider, server, said, tmp_path):
    class Silent(KwokPlatform):
        def prepare(self, *arguments):
            raise WaitTimedOut("waited 60 s until agents report")

    status = {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    for name, is_status in (("agent", status), ("done", {"phase": "Succeeded"})):
        metadata = {"name": name, "namespace": "carico", "uid": name, "resourceVersion": "1"}
        pod = {"metadata": metadata, "spec": {"nodeName": "n"}, "status": is_status}
        server.put(f"/api/v1/namespaces/carico/pods/{name}", **pod)
    server.put("/api/v1/namespaces/carico/events/1", reason="BackOff")
    provider._platform = Silent()
    with pytest.raises(WaitTimedOut, match="agents report"):
        provider.check(SMALL, KUBE, {}).run(1)
    (folder,) = (tmp_path / "diagnostics").iterdir()
    assert said == [f"diagnostics: {folder}"]
    pods = json.loads((folder / "pods-carico.json").read_text())
    assert pods == [{"name": "agent", "node": "n", "status": status}]
    assert "BackOff" in (folder / "events-carico.json").read_text()


def test_diagnostics_of_a_repetition_are_not_collected_again_for_its_test(provider, said, tmp_path):
    class Silent(KwokPlatform):
        def prepare(self, *arguments):
            raise KubeRefused("500: no", 500)

    provider._platform = Silent()
    with pytest.raises(ClusterError) as failed:
        provider.check(SMALL, KUBE, {}).run(1)
    provider.diagnose(provider.cluster(), "carico-testbed", "test_one", failed.value)
    assert len(said) == 1
    provider.diagnose(provider.cluster(), "carico-testbed", "test_one", AssertionError("two pods"))
    assert said[1:] == [f"diagnostics: {tmp_path / 'diagnostics' / 'test_one'}"]


def test_diagnostics_that_cannot_be_read_hide_no_others(provider, server, api, monkeypatch, tmp_path):
    def refuse(*asked):
        raise KubeRefused("403: events is forbidden", 403)

    def fail(*asked):
        raise ClusterError("no logs")

    def stumble(*asked):
        raise ValueError("a Job without a status")

    server.ending = ""
    monkeypatch.setattr(api, "events", refuse)
    monkeypatch.setattr(api, "jobs", stumble)
    monkeypatch.setattr(provider._lifecycle, "collect_logs", fail)
    provider.check(msgspec.structs.replace(SMALL, limit_s=0.3), KUBE, {}).run(1)
    (folder,) = (tmp_path / "diagnostics").iterdir()
    assert (folder / "lacking.txt").read_text().splitlines() == [
        "events: 403: events is forbidden",
        "events-carico: 403: events is forbidden",
        "jobs: ValueError('a Job without a status')",
        "logs: no logs",
    ]
    assert (folder / "pods.json").exists()


def test_diagnostics_wait_only_once_for_an_api_that_does_not_answer(provider, server, api, monkeypatch, tmp_path):
    asked = []

    def hang(*about):
        asked.append(about)
        raise KubeUnreachable("the Kubernetes API cannot be reached: timed out")

    server.ending = ""
    monkeypatch.setattr(api, "events", hang)
    provider.check(msgspec.structs.replace(SMALL, limit_s=0.3), KUBE, {}).run(1)
    (folder,) = (tmp_path / "diagnostics").iterdir()
    assert len(asked) == 1
    assert {path.name for path in folder.iterdir()} == {"lacking.txt", "scheduler.log"}
    assert "events, and everything else from the API: " in (folder / "lacking.txt").read_text()


class Programs(KwokPlatform):
    """Nodes whose pods run programs."""

    def prepare(self, *arguments):
        return replace(super().prepare(*arguments), programs=True)


def test_a_clients_measurements_are_read_from_its_log(provider, server, api):
    provider._platform = Programs()
    parameters = {"duration_s": 60.0}
    web = JobSpec("web", "web", 1, parameters, disturbance=True, platform=True, placement="first")
    jobs = []
    create = api.create_job
    api.create_job = lambda namespace, job: (jobs.append((namespace, job["metadata"]["name"])), create(namespace, job))
    now = time.time()
    server.log = "".join(f"due_unix_s={now + due:.6f} latency_s=0.002000\n" for due in (-100.0, -99.9)) + "a table\n"
    later = msgspec.structs.replace(PI, start_s=0.5)  # a busy machine may show the server's start after the job's end
    run = provider.check(msgspec.structs.replace(SMALL, jobs=[web, later]), KUBE, {}).run(1)
    (series,) = run.requests
    assert (series.job, series.node, series.latency_s) == ("web", "node-0", [0.002, 0.002])
    assert series.sent_s[1] - series.sent_s[0] == pytest.approx(0.1, abs=1e-5)
    assert -110 < series.sent_s[0] < -99
    assert "request_latency" in {one.labels["metric"] for one in run.data_items}
    # Pods of the platform run in a namespace that agents do not count, and are removed from it.
    assert {name: namespace for namespace, name in jobs} == {"web-0": "carico-testbed", "pi-0": "carico-0-run-1"}
    assert api.jobs("carico-testbed") == []
    assert [pod.job for pod in run.pods] == ["web", "pi", "pi", "pi"]


@pytest.mark.parametrize(("log", "told"), [(PRINTED, 1.25), ("3.14159\n", None), ("", None), ("cpu_s=unknown\n", None)])
def test_the_cpu_time_of_programs_is_read_from_their_logs(provider, server, log, told):
    provider._platform = Programs()
    server.log = log
    assert [pod.cpu_s for pod in provider.check(SMALL, KUBE, {}).run(1).pods] == [told] * 3


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([KubeRefused("404: pods not found", 404), PRINTED, KubeUnreachable("no answer")],
         [None, 1.25, None]),
        ([KubeRefused("403: not you", 403)], [None] * 3),
    ],
    ids=["errors of single logs", "forbidden logs are not read again"],
)  # fmt: skip
def test_a_log_that_cannot_be_read_gives_no_cpu_time(provider, api, monkeypatch, answers, told):
    left = iter(answers)

    def log(*_):
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    provider._platform = Programs()
    monkeypatch.setattr(api, "log", log)
    run = provider.check(SMALL, KUBE, {}).run(1)
    assert [(pod.outcome, pod.cpu_s) for pod in run.pods] == [("succeeded", cpu_s) for cpu_s in told]
    assert list(left) == []


def test_ctrl_c_leaves_no_pod_in_the_platforms_namespace(provider, api):
    def press(progress):
        if progress.phase == "running":
            raise KeyboardInterrupt

    provider._platform = Programs()
    web = JobSpec("web", "web", 1, {"duration_s": 60.0}, disturbance=True, platform=True)
    wanted = msgspec.structs.replace(SMALL, jobs=[web, msgspec.structs.replace(PI, start_s=9.0)])
    with pytest.raises(KeyboardInterrupt):
        provider.check(wanted, KUBE, {}).run(1, press)
    assert api.jobs("carico-testbed") == []


def test_pods_of_a_killed_run_in_the_platforms_namespace_are_removed_before_the_next(provider, server, api):
    provider.cluster()
    server.put("/apis/batch/v1/namespaces/carico-testbed/jobs/of-a-killed-run")
    assert len(api.jobs("carico-testbed")) == 1
    provider.check(SMALL, KUBE, {}).run(1)
    assert api.jobs("carico-testbed") == []


def test_ctrl_c_removes_the_namespace(provider, server):
    def press(progress):
        if progress.phase == "running":
            raise KeyboardInterrupt

    server.ending = ""
    with pytest.raises(KeyboardInterrupt):
        provider.check(SMALL, KUBE, {}).run(1, press)
    assert server.within("/api/v1/namespaces/carico-0-run-1") == []


@pytest.mark.parametrize(
    ("scenario", "scheduler", "settings", "error", "message"),
    [
        (SMALL, "carico:variant=thesis-literal", {}, UsageError, "nodes of the provider kwok have no agents"),
        (SMALL, "carico:hold_off_s=2", {}, UsageError, "their reports are synthetic and no parameter changes them"),
        (SMALL, "carico:variant=demand,hold_s=1", {}, UsageError, "write carico or carico:variant=demand alone"),
        (SMALL, "kube-scheduler", {"pressure": "kernel"}, InvalidSetting, "has no settings, got pressure"),
        (SMALL, "kube-scheduler:cpu=5", {}, InvalidSpec, "request less"),
        (changed(priority=5), "kube-scheduler", {}, UsageError, "job pi: the provider fake has no priorities, got 5"),
        (changed(parallelism=2, arrivals=Poisson(1.0)), "kube-scheduler", {}, UsageError, "parallelism = 2"),
        (
            Scenario("c", "d", [PI], node_changes=[NodeChange(1.0, "node-00", "failed")]),
            *("kube-scheduler", {}, UsageError, "cannot change nodes while a scenario runs"),
        ),
    ],
)
def test_what_it_cannot_run_is_refused_before_a_cluster_is_made(
    provider, maker, scenario, scheduler, settings, error, message
):
    with pytest.raises(error, match=message):
        provider.check(scenario, parse_spec(scheduler), settings)
    assert maker.calls == []


class FakeCarico:
    """Records the use of a `LocalCarico`."""

    all: ClassVar = []

    def __init__(self, kubeconfig, folder, slots, *, sizes, variant):
        self.told = (kubeconfig, folder.name, slots)
        self.sizes, self.variant = sizes, variant
        self.state = "made"
        self.all.append(self)

    def open(self):
        self.state = "open"

    def close(self):
        self.state = "closed"


def test_carico_runs_only_for_its_own_repetitions(provider, monkeypatch, server):
    monkeypatch.setattr("testbed.real.kwok.platform.LocalCarico", FakeCarico)
    monkeypatch.setattr(FakeCarico, "all", [])
    run = provider.check(msgspec.structs.replace(SMALL, cluster=ClusterShape(nodes=2, cores=4)), CARICO, {}).run(1)
    assert (run.settings["reports"], run.settings["pods_per_core"]) == ("synthetic", 1)
    (job,) = [asked.body for asked in server.asked if asked.method == "POST" and asked.path.endswith("/jobs")]
    assert job["spec"]["template"]["spec"]["schedulerName"] == "carico"
    (carico,) = FakeCarico.all
    assert carico.told == (provider.cluster().kubeconfig, "carico", {"node-0": 4, "node-1": 4})
    assert (carico.state, carico.sizes, carico.variant) == ("open", {}, "thesis-rebased")
    run = provider.check(SMALL, KUBE, {}).run(1)
    assert "reports" not in run.settings
    assert [carico.state for carico in FakeCarico.all] == ["closed"]
    provider.check(SMALL, CARICO, {}).run(1)
    provider.close()
    assert [carico.state for carico in FakeCarico.all] == ["closed", "closed"]


def test_the_variant_demand_is_told_what_nodes_have_and_what_pods_demand(provider, monkeypatch, server):
    monkeypatch.setattr("testbed.real.kwok.platform.LocalCarico", FakeCarico)
    monkeypatch.setattr(FakeCarico, "all", [])
    job = JobSpec("sklearn", "mlp", pods=2, parameters={"threads": 2, "memory": "512Mi"})
    shape = ClusterShape(nodes=2, cores=4, memory="16Gi")
    scenario = Scenario("small", "two pods", [job], shape)
    run = provider.check(scenario, parse_spec("carico:variant=demand"), {}).run(1)
    assert run.settings["reports"] == "synthetic"
    assert "pods_per_core" not in run.settings
    (carico,) = FakeCarico.all
    assert (carico.variant, carico.sizes) == ("demand", {"node-0": (4, 16.0), "node-1": (4, 16.0)})
    (published,) = [asked.body for asked in server.asked if asked.method == "POST" and asked.path.endswith("/jobs")]
    template = published["spec"]["template"]
    told = template["metadata"]["annotations"]
    assert (float(told[CORES]), float(told[GIB])) == (pytest.approx(1.8), 0.5), "2 threads for 4/5 of the time, then 1"
    assert template["spec"]["containers"][0]["args"] == ["threads=2", "memory=512Mi"], "what makes it a workload"
