"""A scheduler by its `schedulerName` on a real cluster's API: its manifest comes and goes, and its absence is told."""

import pytest

from testbed.errors import ClusterError, UsageError, WaitTimedOut
from testbed.real.api import APPLIED, RUN_LABEL
from testbed.schedulers.spec import parse_spec
from workloads.scenario import ClusterShape, JobSpec, Requests, Scenario

SMALL = Scenario(
    "small", "three pods", [JobSpec("pi", "pi", pods=3, requests=Requests(cpu="500m"))], ClusterShape(nodes=2)
)
MANIFEST = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: my-scheduler, namespace: kube-system}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: my-scheduler, labels: {app: mine}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  metadata: {name: my-scheduler}
---
"""
PATHS = (
    "/api/v1/namespaces/kube-system/serviceaccounts/my-scheduler",
    "/api/v1/namespaces/default/configmaps/my-scheduler",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/my-scheduler",
)


@pytest.fixture
def spec(tmp_path):
    def written(text=MANIFEST, more=""):
        (tmp_path / "my.yaml").write_text(text)
        return parse_spec(f"schedulerName=my-scheduler,manifest={tmp_path / 'my.yaml'}{more}")

    return written


def test_pods_name_the_scheduler_and_its_manifest_is_there_only_meanwhile(provider, server, api, spec):
    seen = []
    create = api.create_job

    def create_job(namespace, job):
        seen.append((job["spec"]["template"]["spec"]["schedulerName"], [server.objects.get(path) for path in PATHS]))
        create(namespace, job)

    api.create_job = create_job
    run = provider.check(SMALL, spec(), {}).run(1)
    assert [pod.outcome for pod in run.pods] == ["succeeded"] * 3
    ((name, there),) = seen
    assert name == "my-scheduler"
    assert [thing["metadata"]["labels"][RUN_LABEL] for thing in there] == ["run-1"] * 3
    assert there[1]["metadata"]["labels"]["app"] == "mine"
    assert not set(PATHS) & set(server.objects)
    removed = [asked.path for asked in server.asked if asked.method == "DELETE" and asked.path in PATHS]
    assert removed == list(reversed(PATHS))


def test_an_interruption_removes_it(provider, server, api, spec):
    def interrupted(namespace, job):
        assert set(PATHS) <= set(server.objects)
        raise KeyboardInterrupt

    api.create_job = interrupted
    with pytest.raises(KeyboardInterrupt):
        provider.check(SMALL, spec(), {}).run(1)
    assert not set(PATHS) & set(server.objects)


def test_what_a_killed_run_has_left_is_removed_by_the_next_and_only_that(provider, server, api, spec):
    provider.cluster()
    things = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
        for name in ("left", "anothers")
    ]
    api.create_namespace("carico-0-run-0", "run-0")
    api.note_applied("carico-0-run-0", things)
    for thing, run in zip(things, ("run-0", "run-7"), strict=True):
        api.objects.apply({**thing, "metadata": thing["metadata"] | {"labels": {RUN_LABEL: run}}})
    assert APPLIED in server.objects["/api/v1/namespaces/carico-0-run-0"]["metadata"]["annotations"]
    provider.check(SMALL, spec(), {}).run(1)
    there = [path for path in server.objects if "/default/configmaps/" in path]
    assert there == ["/api/v1/namespaces/default/configmaps/anothers"]


def test_what_was_there_before_is_never_touched(provider, server, spec):
    server.put(PATHS[0], kind="ServiceAccount")
    with pytest.raises(
        ClusterError, match="serviceaccount/my-scheduler: already on the cluster, and the testbed would"
    ):
        provider.check(SMALL, spec(), {}).run(1)
    assert PATHS[0] in server.objects
    assert not set(PATHS[1:]) & set(server.objects)


def test_a_scheduler_that_takes_no_notice_of_its_pods_is_told_by_name(provider, server):
    server.ending = ""
    with pytest.raises(
        WaitTimedOut, match=r"the scheduler 'absent' had bound or refused a first pod, .* is a scheduler"
    ):
        provider.check(SMALL, parse_spec("schedulerName=absent,within_s=0.3"), {}).run(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no objects"),
        ("a: [", "cannot be read"),
        ("just text", "an object with apiVersion, kind and metadata is needed, got 'just text'"),
        ("{apiVersion: example.org/v1, kind: Queue, metadata: {name: a}}", "Queue: apiVersion 'example.org/v1' cannot"),
        ("{apiVersion: v1, kind: Deployment, metadata: {name: a}}", "v1 has no kind 'Deployment'"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {}}", "metadata.name is needed"),
    ],
)
def test_a_manifest_that_cannot_be_applied_is_refused_before_anything_runs(provider, spec, text, message):
    with pytest.raises(UsageError, match=message):
        provider.check(SMALL, spec(text), {})
