"""Which pods are of one workload."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.workload import placement_of, workload_named, workload_of


def pod(pod_name="pi-1-x2k4p", kind="Job", namespace="default", **container):
    container = {"name": "pi", "image": "pi:1", "command": ["pi"], "args": ["--digits", "2000"]} | container
    owners = [{"kind": kind, "name": pod_name.rpartition("-")[0], "controller": True}] if kind else []
    return {
        "metadata": {"name": pod_name, "namespace": namespace, "ownerReferences": owners},
        "spec": {"containers": [container], "nodeName": pod_name},
    }


def test_the_template_tells_the_workload_whatever_the_owner_is_called():
    assert workload_of(pod()) == workload_of(pod("other-job-b7xq2")) == workload_of(pod("pi-29012345-b7xq2"))
    assert workload_of(pod()).startswith("default/pi-")


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "other"},
        {"image": "pi:2"},
        {"args": ["--digits", "5000"]},
        {"command": ["other"]},
        {"env": [{"name": "DIGITS", "value": "5000"}]},
        {"resources": {"limits": {"cpu": "1"}}},
    ],
)
def test_another_template_is_another_workload(change):
    assert workload_of(pod(**change)) != workload_of(pod())


def test_requests_and_what_differs_from_pod_to_pod_make_no_difference():
    index = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations[x]"}}}
    one, other = (pod(env=[index]), pod("pi-1-7-b7xq2", env=[copy.deepcopy(index)]))
    other["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    other["spec"]["containers"][0]["volumeMounts"] = [{"name": "kube-api-access-abcde"}]
    assert workload_of(one) == workload_of(other)


def test_pods_without_a_template_may_differ_in_numbers():
    assert workload_of(pod(kind=None, args=["--shard=3"])) == workload_of(pod(kind=None, args=["--shard=14"]))
    assert workload_of(pod(kind="Workflow", args=["fit"])) != workload_of(pod(kind="Workflow", args=["score"]))


def test_pods_without_a_template_that_are_named_by_numbers_are_alike():
    """`kubectl run` names the container like the pod."""
    assert workload_of(pod(kind=None, name="run-1")) == workload_of(pod(kind=None, name="run-2"))
    assert workload_of(pod(kind=None, name="run-1")) != workload_of(pod(kind=None, name="walk-1"))


@pytest.mark.parametrize("change", [{"image": "model:70b"}, {"resources": {"limits": {"cpu": "16"}}}])
def test_pods_without_a_template_differ_in_the_numbers_of_images_and_limits(change):
    plain = {"image": "model:7b", "resources": {"limits": {"cpu": "1"}}}
    assert workload_of(pod(kind="Workflow", **plain)) != workload_of(pod(kind="Workflow", **plain | change))


def test_a_kind_of_another_group_has_no_template():
    """Such as Volcano's Job, which tells every pod its number in a variable."""

    def numbered(index, version):
        task = pod(env=[{"name": "VC_TASK_INDEX", "value": index}])
        task["metadata"]["ownerReferences"][0]["apiVersion"] = version
        return workload_of(task)

    assert numbered("0", "batch.volcano.sh/v1alpha1") == numbered("1", "batch.volcano.sh/v1alpha1")
    assert numbered("0", "batch/v1") != numbered("1", "batch/v1")


def test_sidecars_belong_to_the_template_but_not_what_ends_before_the_pod_runs():
    def beside(**container):
        with_init = pod()
        with_init["spec"]["initContainers"] = [{"name": "proxy", "image": "proxy:1"} | container]
        return workload_of(with_init)

    assert beside() == workload_of(pod())
    assert beside(restartPolicy="Always") != workload_of(pod())
    assert beside(restartPolicy="Always") != beside(restartPolicy="Always", image="proxy:2")


@pytest.mark.parametrize(
    "change",
    [
        {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
        {"resources": {"requests": {"memory": "14Gi"}}},
        {"ports": [{"containerPort": 80, "hostPort": 80}]},
    ],
)
def test_what_a_node_must_have_determines_where_a_pod_may_go(change):
    assert placement_of(pod()) == placement_of(pod(ports=[{"containerPort": 80}])) == ""
    assert placement_of(pod(**change)) == placement_of(pod("other-b7xq2", **change)) != ""


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.fixed_dictionaries({}, optional={"metadata": _JSON, "spec": _JSON}), _JSON, _JSON)
def test_whatever_a_pod_holds_its_workload_is_a_short_printable_name(thing, name, owners):
    for each in (
        thing,
        {"metadata": {"namespace": name, "ownerReferences": owners}, "spec": {"containers": [{"name": name}, owners]}},
    ):
        workload = workload_of(each)
        assert workload.isprintable()
        assert " " not in workload
        assert len(workload) < 150


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("shop/web-7c9d8b6f54-x2k4p", "shop/web"),
        ("shop/db-0", "shop/db"),
        ("ml/report-29012345-b7xq2", "ml/report"),
        ("ml/train-7-b7xq2", "ml/train"),
        ("ml/train-b7xq2", "ml/train"),
        ("default/pod", "default/pod"),
        ("default/0", "default/0"),
    ],
)
def test_what_controllers_add_to_names_is_taken_off(name, workload):
    assert workload_named(name) == workload


@given(st.from_regex(r"[a-z]{1,9}/[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True))
def test_a_name_always_gives_a_workload_of_its_namespace(name):
    namespace = name.partition("/")[0]
    workload = workload_named(name)
    assert workload.startswith(f"{namespace}/")
    assert len(workload) > len(namespace) + 1


@pytest.mark.parametrize("kind", [[], {}, ["Job"], None, 1])
def test_an_owner_whose_kind_is_no_text_is_none(kind):
    pod = {"metadata": {"ownerReferences": [{"kind": kind}]}, "spec": {}}
    assert workload_of(pod) == workload_of({"metadata": {}, "spec": {}})
