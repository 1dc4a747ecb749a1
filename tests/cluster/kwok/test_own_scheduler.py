"""Any scheduler by its `schedulerName`: here a second kube-scheduler, which runs on this machine."""

import pytest
import yaml

from testbed.errors import WaitTimedOut
from testbed.programs.child_process import ChildProcess
from testbed.real.api import RUN_LABEL
from testbed.real.kwok.carico import kube_scheduler_command
from workloads.scenario import ClusterShape, JobSpec, Scenario

pytestmark = [pytest.mark.cluster, pytest.mark.carico(providers=["kwok"])]

SMALL = Scenario("small", "ten pods", [JobSpec("pi", "pi", pods=10, parameters={"digits": 500})], ClusterShape(nodes=3))
NAMES = {"name": "my-scheduler", "namespace": "kube-system"}
THINGS = [
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "queues.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"kind": "Queue", "plural": "queues"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    },
    {"apiVersion": "example.org/v1", "kind": "Queue", "metadata": {"name": "batch", "namespace": "kube-system"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": NAMES},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "my-scheduler"}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": NAMES,
        "spec": {
            "selector": {"matchLabels": {"app": "my-scheduler"}},
            "template": {
                "metadata": {"labels": {"app": "my-scheduler"}},
                "spec": {"containers": [{"name": "main", "image": "carico.dev/none"}]},
            },
        },
    },
]


@pytest.fixture
def scheduler(carico_cluster, tmp_path):
    """A kube-scheduler whose only profile has a name of its own."""
    file = tmp_path / "kube-scheduler.yaml"
    command = kube_scheduler_command(carico_cluster.kubeconfig, file)
    configuration = yaml.safe_load(file.read_text())
    (profile,) = configuration["profiles"]
    profile["schedulerName"] = "my-scheduler"
    file.write_text(yaml.safe_dump(configuration))
    process = ChildProcess(command, tmp_path / "kube-scheduler.log")
    yield process
    process.end()


def test_its_manifest_is_there_while_it_schedules(carico_experiment, carico_cluster, scheduler, tmp_path, monkeypatch):
    (tmp_path / "my.yaml").write_text(yaml.safe_dump_all(reversed(THINGS)))
    kube, seen = carico_cluster.api.objects, []
    create = carico_cluster.api.create_job

    def create_job(namespace, job):
        seen.extend(kube.read(thing)["metadata"]["labels"].get(RUN_LABEL) for thing in THINGS)
        create(namespace, job)

    monkeypatch.setattr(carico_cluster.api, "create_job", create_job)
    # Twice: everything must be gone before it is applied again.
    runs = carico_experiment.run(SMALL, f"schedulerName=my-scheduler,manifest={tmp_path / 'my.yaml'}", repetitions=2)
    assert [pod.outcome for run in runs for pod in run.pods] == ["succeeded"] * 20
    assert len(seen) == 2 * len(THINGS)
    assert None not in seen
    assert [kube.read(thing) for thing in THINGS] == [None] * len(THINGS)


def test_one_that_is_not_there_is_told_by_name(carico_experiment):
    with pytest.raises(WaitTimedOut, match="the scheduler 'absent' had bound or refused a first pod"):
        carico_experiment.run(SMALL, "schedulerName=absent,within_s=5", repetitions=1)
