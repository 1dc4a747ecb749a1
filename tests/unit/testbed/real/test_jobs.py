"""Manifests of a scenario's Jobs."""

import msgspec
import pytest

from testbed.experiment.workload_draws import WorkloadDraw
from testbed.real.jobs import job_manifest, publications
from workloads.scenario import JobSpec, Requests

JOB = JobSpec("pi", "pi", pods=3)
TEMPLATE = {"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}


def manifest(requests=Requests(), **changes):  # noqa: B008 - immutable
    job = msgspec.structs.replace(JOB, **changes)
    (published,) = publications([WorkloadDraw(job, [1.0] * 3, [0.0] * 3)])
    names = {"scheduler_name": "default-scheduler", "first_node": "node-00", "run": "run-1"}
    return job_manifest(published, TEMPLATE, requests=requests, **names)["spec"]


def test_pods_that_arrive_together_are_one_indexed_job():
    spec = manifest()
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (3, 3, "Indexed")
    assert spec["backoffLimit"] == JOB.backoff_limit
    assert manifest(parallelism=2)["parallelism"] == 2
    pod = spec["template"]
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert (pod["spec"]["restartPolicy"], pod["spec"]["schedulerName"]) == ("Never", "default-scheduler")
    assert "affinity" not in pod["spec"]
    assert TEMPLATE["spec"]["containers"] == [{"name": "main", "image": "i"}]


def test_pods_that_arrive_later_are_further_jobs_in_order_of_time():
    late = WorkloadDraw(msgspec.structs.replace(JOB, name="late", start_s=5.0), [1.0, 2.0, 3.0], [0.0, 0.0, 2.5])
    early = WorkloadDraw(JOB, [4.0] * 3, [6.0, 6.0, 6.0])
    assert [(one.at_s, one.job.name, one.number, one.work) for one in publications([late, early])] == [
        (5.0, "late", 0, [1.0, 2.0]),
        (6.0, "pi", 0, [4.0, 4.0, 4.0]),
        (7.5, "late", 1, [3.0]),
    ]


@pytest.mark.parametrize(
    ("requests", "written"),
    [
        (Requests(), {}),
        (Requests(cpu="0.5"), {"cpu": "500m"}),
        (Requests(cpu=1, memory="750Mi"), {"cpu": "1000m", "memory": "786432000"}),
    ],
)
def test_requests_come_from_the_scheduler_under_test(requests, written):
    assert manifest(requests)["template"]["spec"]["containers"][0]["resources"] == {"requests": written}


@pytest.mark.parametrize(("placement", "operator"), [("first", "In"), ("rest", "NotIn")])
def test_placement_is_node_affinity(placement, operator):
    affinity = manifest(placement=placement)["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": operator, "values": ["node-00"]}]


def test_failures_that_do_not_count_become_a_pod_failure_policy():
    assert "podFailurePolicy" not in manifest()
    rules = manifest(on_oom_kill="fail-job", on_disruption="ignore")["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["Ignore", "FailJob"]
    assert rules[1]["onExitCodes"]["values"] == [137]


def test_pods_that_answer_requests_are_labelled():
    label = "carico.dev/latency-critical"
    assert manifest(latency_critical=True)["template"]["metadata"]["labels"][label] == "true"
    assert label not in manifest()["template"]["metadata"]["labels"]
