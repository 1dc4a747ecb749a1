"""A scheduler by its `schedulerName` on a real cluster's API: its manifest comes and goes, and its absence is told."""

import pytest

from testbed.errors import ClusterError, UsageError, WaitTimedOut
from testbed.real.api import APPLIED, RUN_LABEL
from testbed.real.applied import read_manifest
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


CUSTOM = """
apiVersion: example.org/v1
kind: Queue
metadata: {name: batch}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: my-scheduler}
---
apiVersion: example.org/v1
kind: Quota
metadata: {name: all}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Queue, plural: queues}
  versions: [{name: v1, served: true, storage: true}, {name: v0, served: false}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: quotas.example.org}
spec:
  group: example.org
  scope: Cluster
  names: {kind: Quota, plural: quotas}
  versions: [{name: v1, served: true, storage: true}]
"""
DEFINITIONS = [
    f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.example.org" for name in ("queues", "quotas")
]
QUEUE, QUOTA = "/apis/example.org/v1/namespaces/default/queues/batch", "/apis/example.org/v1/quotas/all"


def test_custom_resources_come_after_their_definitions_and_go_before_them(provider, server, spec):
    provider.check(SMALL, spec(CUSTOM), {}).run(1)
    applied = [asked for asked in server.asked if asked.content_type == "application/apply-patch+yaml"]
    assert [asked.path for asked in applied] == [*DEFINITIONS, QUEUE, PATHS[1], QUOTA]
    assert {asked.body["metadata"]["labels"][RUN_LABEL] for asked in applied} == {"run-1"}
    ours = [asked.path for asked in applied]
    removed = [asked.path for asked in server.asked if asked.method == "DELETE" and asked.path in ours]
    assert removed == [QUOTA, QUEUE, PATHS[1], *reversed(DEFINITIONS)]


def test_custom_resources_that_a_killed_run_has_left_are_removed_by_the_next(provider, server, api, spec):
    provider.cluster()
    things = read_manifest(spec(CUSTOM).manifest)
    api.create_namespace("carico-0-run-0", "run-0")
    api.note_applied("carico-0-run-0", things)
    for thing in things:
        api.objects.apply({**thing, "metadata": thing["metadata"] | {"labels": {RUN_LABEL: "run-0"}}})
    assert {QUEUE, QUOTA, *DEFINITIONS} <= set(server.objects)
    provider.check(SMALL, parse_spec("schedulerName=another"), {}).run(1)
    assert not {QUEUE, QUOTA, *DEFINITIONS} & set(server.objects)


def test_custom_resources_whose_definitions_the_server_does_not_take_in_are_told(provider, server, spec, monkeypatch):
    monkeypatch.setattr("testbed.real.applied.DEFINED_S", 0.1)
    server._kinds = lambda path: (404, {"kind": "Status", "message": "not found"})
    with pytest.raises(WaitTimedOut, match=r"does not know Queue of example\.org/v1, Quota of example\.org/v1"):
        provider.check(SMALL, spec(CUSTOM), {}).run(1)
    assert not set(DEFINITIONS) & set(server.objects)


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
        ("a: [", "it is not YAML: while parsing .* line 1, column 5"),
        ("just text", "an object with apiVersion, kind and metadata is needed, got 'just text'"),
        ("{apiVersion: example.org/v1, kind: Queue, metadata: {name: a}}", "Queue: apiVersion 'example.org/v1' cannot"),
        ("{apiVersion: example.org/v0, kind: Queue, metadata: {name: a}}\n---" + CUSTOM, "'example.org/v0' cannot be"),
        (
            CUSTOM.replace("scope: Cluster", ""),
            "customresourcedefinition.apiextensions.k8s.io/quotas.example.org: spec ",
        ),
        (CUSTOM.replace("{name: batch}", "{}"), "Queue: metadata.name is needed, got None"),
        ("{apiVersion: v1, kind: Deployment, metadata: {name: a}}", "v1 has no kind 'Deployment'"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {}}", "metadata.name is needed"),
    ],
)
def test_a_manifest_that_cannot_be_applied_is_refused_before_anything_runs(provider, spec, text, message):
    with pytest.raises(UsageError, match=message):
        provider.check(SMALL, spec(text), {})
