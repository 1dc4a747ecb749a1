"""Pods by the folders of their control groups: both drivers, classes that come and go, with and without inotify."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from carico.errors import PodEventsError
from carico.podevents import folder_watch
from carico.podevents.cgroups import CgroupEvents, _members
from carico.podevents.source import PodChange
from carico.testing import ManualClock
from tests.kits.kubelet_folders import cgroupfs, kind_systemd, systemd

UIDS = [f"0f3cd{number:03d}-9d1c-4a53-8f0e-5a4fbb9a3e1{number}" for number in range(4)]
STATIC = "f1b2c3d4e5f60718293a4b5c6d7e8f90"


LAYOUTS = {
    "v2-cgroupfs": ("", cgroupfs),
    "v2-systemd": ("", systemd),
    "v2-kind": ("", kind_systemd),
    "v1-cgroupfs": ("cpu", cgroupfs),
    "v1-systemd": ("cpu,cpuacct", systemd),
    "v1-kind": ("memory", kind_systemd),
}


@pytest.fixture(params=["inotify", "polling"])
def watch(request, monkeypatch):
    """Both ways to learn of changes; inotify must do without the look after a while."""
    if request.param == "inotify":
        monkeypatch.setattr("carico.podevents.cgroups._LOOK_ANYWAY_S", 60.0)
        return

    def none():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(folder_watch, "InotifyWatch", none)
    monkeypatch.setattr(folder_watch, "_LOOK_EVERY_S", 0.02)


@pytest.fixture
def source(watch, tmp_path):
    source = CgroupEvents(tmp_path, clock=ManualClock(5.0))
    yield source
    source.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pods_of_every_class_come_and_go(layout, tmp_path, source, told):
    controller, place = LAYOUTS[layout]
    root = tmp_path / controller
    static = place(root, "burstable", STATIC)
    static.mkdir(parents=True)
    static.joinpath("a" * 64).mkdir()
    source.start(told)
    assert told.so_far() == 0, "the kubelet's own"
    for number, klass in enumerate(["guaranteed", "besteffort", "burstable"]):
        pod = place(root, klass, UIDS[number])
        pod.mkdir(parents=True)  # with it the folder of its class, where it is the first
        assert told.wait_for(number + 1) == [PodChange(+1, 5.0, UIDS[number])]
        pod.joinpath("b" * 64).mkdir()  # a container, no pod
    shutil.rmtree(place(root, "besteffort", UIDS[1]).parent)
    told.wait_for(2)
    place(root, "besteffort", UIDS[3]).mkdir(parents=True)  # the class comes back
    told.wait_for(3)
    shutil.rmtree(place(root, "guaranteed", UIDS[0]))
    told.wait_for(2)
    assert told.steps == [1, 1, 1, -1, 1, -1]


def test_a_pod_ends_with_its_last_container_not_when_the_kubelet_cleans_up(tmp_path, source, told):
    pod = systemd(tmp_path, "besteffort", UIDS[0])
    pod.mkdir(parents=True)
    source.start(told)
    for name in ("sandbox", "one", "two"):
        pod.joinpath(name).mkdir()
    pod.joinpath("one").rmdir()
    # That another pod is told proves that the source has looked.
    other = systemd(tmp_path, "besteffort", UIDS[1])
    other.mkdir()
    told.wait_for(2)
    other.rmdir()
    told.wait_for(1)
    pod.joinpath("two").rmdir()
    told.wait_for(0)
    pod.joinpath("restarted").mkdir()
    told.wait_for(1)
    shutil.rmtree(pod)
    told.wait_for(0)
    assert told.steps == [1, 1, -1, -1, 1, -1]


def test_a_pod_ends_with_a_sandbox_that_never_got_a_container(tmp_path, source, told):
    pod = cgroupfs(tmp_path, "guaranteed", UIDS[0])
    pod.joinpath("sandbox").mkdir(parents=True)
    source.start(told)
    assert told.so_far() == 1
    pod.joinpath("sandbox").rmdir()
    told.wait_for(0)


@pytest.mark.parametrize("links", [True, False], ids=["links-counted", "links-not-counted"])
def test_a_groups_members_are_counted_on_any_file_system(tmp_path, links, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    if not links:
        monkeypatch.setattr(Path, "stat", lambda self: SimpleNamespace(st_nlink=1))
    assert _members(tmp_path) == 2
    if links:
        assert _members(tmp_path / "gone") == 0


def test_the_caller_says_which_pods_count_and_what_they_are_called(tmp_path, told):
    def counted(uids):
        return {uid: f"jobs/pi-{uid[7]}" for uid in uids if uid not in (UIDS[3], UIDS[1])}

    for uid in (UIDS[0], UIDS[3]):
        systemd(tmp_path, "burstable", uid).mkdir(parents=True)
    source = CgroupEvents(tmp_path, counted)
    source.start(told)
    assert told.so_far() == 1
    systemd(tmp_path, "burstable", UIDS[1]).mkdir()
    systemd(tmp_path, "burstable", UIDS[2]).mkdir()
    told.wait_for(2)
    source.close()
    assert told.so_far() == 2
    assert told.running == {UIDS[0]: "jobs/pi-0", UIDS[2]: "jobs/pi-2"}


def test_no_other_folder_is_a_pod(tmp_path, told):
    for name in ("podinfo", "pod", "kubepods-podx.slice", "mypod" + STATIC, f"pod{UIDS[0]}.scope", "system.slice"):
        (tmp_path / "kubepods" / name).mkdir(parents=True)
    (tmp_path / "kubepods" / f"pod{UIDS[0]}").write_text("a file")
    source = CgroupEvents(tmp_path)
    source.start(told)
    assert told.so_far() == 0
    source.close()


@pytest.mark.parametrize("depth", ["nothing", "a/b/c/kubepods"])
def test_without_the_kubelets_folder_the_error_gives_the_remedy(tmp_path, told, depth):
    (tmp_path / depth).mkdir(parents=True)
    source = CgroupEvents(tmp_path)
    with pytest.raises(PodEventsError, match="holds no control group kubepods"):
        source.start(told)
    source.close()


def test_a_kubelet_that_makes_its_folder_again_is_followed(tmp_path, source, told, quick_reconnects, caplog):
    pods = [cgroupfs(tmp_path, "besteffort", uid) for uid in UIDS]
    pods[0].mkdir(parents=True)
    source.start(told)
    shutil.rmtree(tmp_path / "kubepods")
    told.wait_for(0)
    pods[1].mkdir(parents=True)
    pods[2].mkdir()
    told.wait_for(2)
    pods[3].mkdir()
    told.wait_for(3)


def test_a_closed_source_tells_no_more_and_a_second_close_does_nothing(tmp_path, source, told):
    cgroupfs(tmp_path, "besteffort", UIDS[0]).mkdir(parents=True)
    source.start(told)
    source.close()
    source.close()
    cgroupfs(tmp_path, "besteffort", UIDS[1]).mkdir()
    assert told.so_far() == 1
