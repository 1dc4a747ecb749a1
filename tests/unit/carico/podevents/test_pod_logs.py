"""Which pods count, and what they are called, by the folders of their logs."""

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico.errors import PodEventsError
from carico.podevents.cgroups import CgroupEvents
from carico.podevents.pod_logs import PATIENCE_S, PodLogs
from carico.podevents.source import PLATFORM_NAMESPACES, PodChange
from carico.testing import ManualClock

UIDS = [f"0f3cd{number:03d}-9d1c-4a53-8f0e-5a4fbb9a3e1{number}" for number in range(3)]
STATIC = "f1b2c3d4e5f60718293a4b5c6d7e8f90"


def test_a_folder_names_namespace_and_uid(tmp_path):
    for name in (f"kube-system_kube-proxy-x_{UIDS[0]}", f"kube-system_etcd_{STATIC}", f"jobs_pi-1_{UIDS[1]}"):
        tmp_path.joinpath(name).mkdir()
    tmp_path.joinpath("something else").mkdir()
    clock = ManualClock()
    pods = {UIDS[0]: "kube-system/kube-proxy-x", UIDS[1]: "jobs/pi-1", STATIC: "kube-system/etcd"}
    for platform, counted in ((PLATFORM_NAMESPACES, [UIDS[1]]), (["jobs"], [UIDS[0], STATIC]), ([], pods)):
        assert PodLogs(tmp_path, clock, platform).counted_from_group(pods) == {uid: pods[uid] for uid in counted}


def test_a_pod_without_a_folder_counts_without_a_name(tmp_path):
    tmp_path.joinpath(f"jobs_pi-0_{UIDS[0]}").mkdir()
    logs = PodLogs(tmp_path, ManualClock())
    assert logs.counted_from_group(UIDS[1:]) == dict.fromkeys(UIDS[1:], "")


def test_a_pod_that_waits_for_its_image_counts_only_at_first(tmp_path):
    folders = [tmp_path / f"jobs_pi-{number}_{uid}" for number, uid in enumerate(UIDS[:2])]
    for folder in folders:
        folder.mkdir()
    clock = ManualClock()
    logs = PodLogs(tmp_path, clock)
    assert logs.counted_from_group(UIDS[:2]).keys() == set(UIDS[:2])
    folders[0].joinpath("pi").mkdir()
    clock.advance(PATIENCE_S + 1)
    assert logs.counted_from_group(UIDS[:2]).keys() == {UIDS[0]}
    folders[1].joinpath("pi").mkdir()
    assert logs.counted_from_group(UIDS[:2]).keys() == set(UIDS[:2])
    # The kubelet rotates and removes logs of containers that are over: that the pod had some is not forgotten.
    folders[0].joinpath("pi").rmdir()
    clock.advance(PATIENCE_S + 1)
    assert logs.counted_from_group(UIDS[:2]).keys() == set(UIDS[:2])


PODS = st.dictionaries(
    st.sampled_from(UIDS),
    st.tuples(st.sampled_from(["jobs", "kube-system", "shop"]), st.booleans(), st.booleans()),
)
NO_PODS = st.lists(st.sampled_from(["lost+found", f"jobs_{UIDS[0]}", f"jobs_pi_1_{UIDS[1]}", UIDS[2], "a_b_c"]))


@settings(deadline=None)
@given(pods=PODS, others=NO_PODS)
def test_from_the_first_container_on_all_count_but_the_platforms(tmp_path_factory, pods, others):
    """A pod: its namespace, whether it has had a container, and whether its control group lives."""
    folder = tmp_path_factory.mktemp("pods")
    for uid, (namespace, contained, _) in pods.items():
        folder.joinpath(f"{namespace}_a-pod_{uid}", *["web"] * contained).mkdir(parents=True)
    for name in others:
        folder.joinpath(name, "pi").mkdir(parents=True, exist_ok=True)
    alive = [uid for uid, (_, _, lives) in pods.items() if lives]
    expected = {uid: f"{pods[uid][0]}/a-pod" for uid in alive if pods[uid][1] and pods[uid][0] != "kube-system"}
    clock = ManualClock()
    logs = PodLogs(folder, clock)
    assert logs.counted_from_container(alive) == expected
    clock.advance(PATIENCE_S + 1)
    assert logs.counted_from_container(alive) == expected, "however long a pod waits"


def test_that_a_pod_has_had_a_container_is_not_forgotten(tmp_path):
    folder = tmp_path / f"jobs_pi-0_{UIDS[0]}"
    folder.mkdir()
    logs = PodLogs(tmp_path, ManualClock())
    assert logs.counted_from_container(UIDS) == {}
    folder.joinpath("pi").mkdir()
    assert logs.counted_from_container(UIDS) == {UIDS[0]: "jobs/pi-0"}
    folder.joinpath("pi").rmdir()
    assert logs.counted_from_container(UIDS) == {UIDS[0]: "jobs/pi-0"}
    folder.rmdir()
    assert logs.counted_from_container(UIDS) == {}


@pytest.mark.parametrize("counted", [PodLogs.counted_from_group, PodLogs.counted_from_container])
def test_without_the_folder_the_error_gives_the_remedy(tmp_path, counted):
    with pytest.raises(PodEventsError, match=r"cannot be listed .*hostPath.*pod_logs: null"):
        counted(PodLogs(tmp_path / "nowhere", ManualClock()), UIDS)


def test_control_groups_of_platform_pods_do_not_count(tmp_path, told):
    groups, logs = tmp_path / "cgroup" / "kubepods", tmp_path / "pods"
    for folder in (groups, logs):
        folder.mkdir(parents=True)

    def start(namespace, uid):
        groups.joinpath(f"pod{uid}").mkdir()
        logs.joinpath(f"{namespace}_a-pod_{uid}").mkdir()  # a moment later, as the kubelet does
        groups.joinpath(f"pod{uid}", "sandbox").mkdir()

    clock = ManualClock()
    start("kube-system", STATIC)
    source = CgroupEvents(groups.parent, PodLogs(logs, clock).counted_from_group, clock)
    source.start(told)
    assert told.so_far() == 0
    start("kube-system", UIDS[0])
    start("jobs", UIDS[1])
    told.wait_for(1)
    shutil.rmtree(groups / f"pod{UIDS[1]}")
    told.wait_for(0)
    source.close()


def test_with_control_groups_a_pod_counts_from_its_first_container_on(tmp_path, told, monkeypatch):
    monkeypatch.setattr("carico.podevents.cgroups._LOOK_ANYWAY_S", 60.0)
    groups, logs = tmp_path / "cgroup" / "kubepods", tmp_path / "pods"
    for folder in (groups, logs):
        folder.mkdir(parents=True)

    def bind(namespace, uid):
        groups.joinpath(f"pod{uid}").mkdir()
        logs.joinpath(f"{namespace}_a-pod_{uid}").mkdir()
        groups.joinpath(f"pod{uid}", "sandbox").mkdir()

    def contain(namespace, uid, name):
        logs.joinpath(f"{namespace}_a-pod_{uid}", name).mkdir(exist_ok=True)
        groups.joinpath(f"pod{uid}", name).mkdir()  # a moment later, as the kubelet and the runtime do

    clock = ManualClock()
    source = CgroupEvents(groups.parent, PodLogs(logs, clock).counted_from_container, clock)
    bind("jobs", UIDS[0])
    source.start(told)
    assert told.so_far() == 0
    bind("kube-system", UIDS[1])
    contain("kube-system", UIDS[1], "proxy")
    bind("shop", UIDS[2])
    contain("shop", UIDS[2], "web")
    assert told.wait_for(1) == [PodChange(+1, 0.0, UIDS[2], "shop/a-pod")]
    contain("jobs", UIDS[0], "pi")
    assert told.wait_for(2) == [PodChange(+1, 0.0, UIDS[0], "jobs/a-pod")]
    # The pod was told because of a folder of logs. That the other's end is told proves that the group was seen, too.
    shutil.rmtree(groups / f"pod{UIDS[2]}")
    assert told.wait_for(1) == [PodChange(-1, 0.0, UIDS[2], "shop/a-pod")]
    groups.joinpath(f"pod{UIDS[0]}", "pi").rmdir()
    assert told.wait_for(0) == [PodChange(-1, 0.0, UIDS[0], "jobs/a-pod")]
    contain("jobs", UIDS[0], "pi")  # once more, after a crash
    assert told.wait_for(1) == [PodChange(+1, 0.0, UIDS[0], "jobs/a-pod")]
    source.close()
