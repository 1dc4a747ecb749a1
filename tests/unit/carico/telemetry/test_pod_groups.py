"""The counters of single pods: groups as kubelets make them, with text as kernels write it, and what goes wrong."""

import logging
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.telemetry.counters import PodCounters, PodUse, pod_use_between
from carico.telemetry.pod_groups import PodGroups
from carico.testing import ManualClock
from tests.kits.kubelet_folders import cgroupfs, kind_systemd, systemd

from .cgroup_trees import MIB, V1, V2

CLASSES = {
    "guaranteed": "0f3cd000-9d1c-4a53-8f0e-5a4fbb9a3e10",
    "burstable": "0f3cd001-9d1c-4a53-8f0e-5a4fbb9a3e11",
    "besteffort": "0f3cd002-9d1c-4a53-8f0e-5a4fbb9a3e12",
}
UID, OTHER, THIRD = CLASSES.values()
LAYOUTS = {"cgroupfs": cgroupfs, "systemd": systemd, "kind": kind_systemd}
FILES = ("cpu.stat", "cpu.pressure", "memory.current", "memory.stat")
SOUND = PodCounters(at_s=7.0, cpu_s=5.0, waited_s=0.001, gib=200 / 1024)
"""What `V2` holds."""


def make(group, **changed):
    """Make a pod's group; changed files by name, with _ for the dot."""
    group.mkdir(parents=True)
    for name in FILES:
        (group / name).write_text(changed.get(name.replace(".", "_"), V2[name]))
    return group


class Node:
    def __init__(self, root, layout=cgroupfs):
        self.root, self.layout, self.clock = root, layout, ManualClock(7.0)
        kubepods = layout(root, "guaranteed", UID).parent
        kubepods.mkdir(parents=True)
        (kubepods / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma\n")
        self.groups = PodGroups(root, self.clock)

    def pod(self, uid, klass="guaranteed", **changed):
        return make(self.layout(self.root, klass, uid), **changed)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def listed(monkeypatch):
    """The folders that are listed."""
    seen = []
    real = os.scandir

    def scandir(folder):
        seen.append(Path(folder).name)
        return real(folder)

    monkeypatch.setattr("carico.telemetry.kubepods.os.scandir", scandir)
    return seen


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pods_of_every_class_are_read(tmp_path, layout):
    node = Node(tmp_path, LAYOUTS[layout])
    for number, (klass, uid) in enumerate(CLASSES.items()):
        node.pod(uid, klass, cpu_stat=f"usage_usec {number}500000\nuser_usec 7\nsystem_usec 8\nnice_usec 0\n")
    counters = node.groups.read(CLASSES.values())
    assert {uid: one.cpu_s for uid, one in counters.items()} == {UID: 0.5, OTHER: 1.5, THIRD: 2.5}
    assert node.groups.read([OTHER]) == {OTHER: SOUND._replace(cpu_s=1.5)}, "only those that are asked for"


def test_memory_is_without_the_page_cache_and_never_negative(node):
    node.pod(UID)
    node.pod(OTHER, memory_current=f"{90 * MIB}\n")
    counters = node.groups.read([UID, OTHER])
    assert counters[UID] == SOUND
    assert counters[OTHER].gib == 0.0, "the kernel counts the two at different times"


def test_use_between_two_readings(node):
    group = node.pod(UID)
    before = node.groups.read([UID])[UID]
    node.clock.advance(10.0)
    (group / "cpu.stat").write_text("usage_usec 20000000\nuser_usec 0\n")
    (group / "cpu.pressure").write_text("some avg10=1.00 avg60=0.20 avg300=0.04 total=2501000\nfull avg10=0.00\n")
    (group / "memory.current").write_text(f"{612 * MIB}\n")
    after = node.groups.read([UID])[UID]
    use = PodUse(cores=1.5, waiting=0.25, gib=0.5, gib_per_s=(0.5 - before.gib) / 10)
    assert pod_use_between(before, after) == use


MALFORMED = [
    ("cpu.stat", ""),
    ("cpu.stat", "user_usec 4000000\nsystem_usec 1000000\n"),
    ("cpu.stat", "usage_usec -5\n"),
    ("cpu.stat", "usage_usec 5"),
    ("cpu.stat", "usage_usec 1e6\n"),
    ("cpu.stat", f"usage_usec {2**64 - 1}\n"),
    ("cpu.stat", "usage_usec " + 4000 * "9" + "\n"),
    ("cpu.stat", 9000 * " " + "\nusage_usec 5\n"),
    ("cpu.pressure", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
    ("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=\n"),
    ("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=-1\n"),
    ("memory.current", "max\n"),
    ("memory.current", f"{2**63}\n"),
    ("memory.current", "\0\n"),
    ("memory.stat", "anon 1\nfile_mapped 9\n"),
    ("memory.stat", "anon 1\nfile \n"),
]


@pytest.mark.parametrize(("name", "content"), MALFORMED)
def test_a_pod_with_a_malformed_file_is_left_out_until_the_file_is_sound(node, name, content):
    group = node.pod(UID)
    node.pod(OTHER)
    (group / name).write_text(content)
    assert node.groups.read([UID, OTHER]) == {OTHER: SOUND}
    (group / name).write_text(V2[name])
    assert node.groups.read([UID, OTHER]) == {UID: SOUND, OTHER: SOUND}


@pytest.mark.parametrize("name", FILES)
def test_a_pod_without_one_of_the_files_is_left_out(node, name):
    (node.pod(UID) / name).unlink()
    node.pod(OTHER)
    assert node.groups.read([UID, OTHER]) == {OTHER: SOUND}


@pytest.mark.parametrize("name", FILES)
def test_links_are_not_followed(node, tmp_path, name):
    file = node.pod(UID) / name
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert node.groups.read([UID]) == {}


def test_a_linked_group_is_not_followed(node, tmp_path):
    node.pod(OTHER).rename(tmp_path / "elsewhere")
    cgroupfs(tmp_path, "guaranteed", UID).symlink_to(tmp_path / "elsewhere")
    assert node.groups.read([UID]) == {}


def test_a_pod_that_has_gone_is_left_out_and_may_come_back_in_another_class(node):
    group = node.pod(UID, "burstable")
    node.pod(OTHER, "burstable")
    assert node.groups.read([UID, OTHER]).keys() == {UID, OTHER}
    shutil.rmtree(group)
    assert node.groups.read([UID, OTHER]) == {OTHER: SOUND}
    node.pod(UID, "besteffort")
    assert node.groups.read([UID, OTHER]) == {UID: SOUND, OTHER: SOUND}


def test_folders_are_listed_only_for_pods_that_are_new(node, listed):
    node.pod(UID)
    node.pod(OTHER)
    node.groups.read([UID])
    assert "kubepods" in listed
    listed.clear()
    node.groups.read([UID])
    node.groups.read([])
    assert not listed
    node.groups.read([UID, OTHER])
    assert "kubepods" in listed, "pods that are not asked for are forgotten"


def test_no_descriptor_stays_open(node):
    group = node.pod(UID)
    node.pod(OTHER)
    (group / "memory.stat").write_text("nothing\n")
    before = set(Path("/proc/self/fd").iterdir())
    node.groups.read([UID, OTHER])
    assert set(Path("/proc/self/fd").iterdir()) == before


def v1(root):
    for controller in ("cpu", "cpuacct", "memory"):
        cgroupfs(root / controller, "guaranteed", UID).mkdir(parents=True)


def hybrid(root, layout=cgroupfs, klass="guaranteed", **changed):
    """Make a pod of the hybrid hierarchy; return the folders of its groups by the name of the tree."""
    files = {
        "unified": {"cpu.stat": V2["cpu.stat"], "cpu.pressure": V2["cpu.pressure"]},
        "memory": {name: V1[f"memory/{name}"] for name in ("memory.usage_in_bytes", "memory.stat")},
        "blkio": {},
    }
    groups = {tree: layout(root / tree, klass, UID) for tree in files}
    for tree, group in groups.items():
        group.mkdir(parents=True)
        for name, content in files[tree].items():
            (group / name).write_text(changed.get(name.replace(".", "_"), content))
    for folder in (root / "unified", groups["unified"].parent):
        (folder / "cgroup.controllers").write_text("\n")
    return groups


@pytest.mark.parametrize("klass", CLASSES)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_pods_of_the_hybrid_hierarchy_are_read_from_two_trees(tmp_path, layout, klass):
    hybrid(tmp_path, layout, klass)
    assert PodGroups(tmp_path, ManualClock(7.0)).read([UID, OTHER]) == {UID: SOUND}


@pytest.mark.parametrize(
    ("tree", "name", "content"),
    [
        ("unified", "cpu.stat", "user_usec 1\n"),
        ("unified", "cpu.pressure", ""),
        ("memory", "memory.usage_in_bytes", "-1\n"),
        ("memory", "memory.stat", "cache 4096\nrss 8192\n"),
    ],
)
def test_a_malformed_file_of_the_hybrid_hierarchy_leaves_the_pod_out(tmp_path, tree, name, content):
    (hybrid(tmp_path)[tree] / name).write_text(content)
    assert PodGroups(tmp_path).read([UID]) == {}


def test_a_pod_whose_memory_nothing_counts_is_left_out(tmp_path):
    shutil.rmtree(hybrid(tmp_path)["memory"])
    assert PodGroups(tmp_path).read([UID]) == {}


def test_groups_of_v2_with_the_names_of_trees_make_no_hybrid_hierarchy(node):
    node.pod(UID)
    (node.root / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma\n")
    for name in ("unified", "memory"):
        (node.root / name).mkdir()
    assert node.groups.read([UID]) == {UID: SOUND}


def hybrid_without_memory(root):
    hybrid(root)
    shutil.rmtree(root / "memory")


def unified_part(root):
    """The v2 tree of a hybrid hierarchy, mounted by itself."""
    group = make(cgroupfs(root, "guaranteed", UID))
    (group.parent / "cgroup.controllers").write_text("hugetlb\n")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (v1, "no controller memory of cgroup v2, .*: boot the node"),
        (hybrid_without_memory, "no controller memory of cgroup v2, and .* no hybrid hierarchy"),
        (unified_part, "no controller memory of cgroup v2, and .* no hybrid hierarchy"),
        (lambda root: root.joinpath("system.slice").mkdir(), "holds no control group kubepods"),
        (lambda root: root.joinpath("kubepods").write_text(""), "holds no control group kubepods"),
    ],
    ids=["v1", "hybrid without memory", "unified", "no kubelet", "a file"],
)
def test_without_groups_that_can_be_read_there_are_no_pods_and_a_line_says_why_once(tmp_path, caplog, made, why):
    made(tmp_path)
    groups = PodGroups(tmp_path)
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            assert groups.read([UID, OTHER]) == {}
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert re.search(why, caplog.text)


def test_a_kubelet_that_starts_later_is_found(tmp_path):
    groups = PodGroups(tmp_path, ManualClock(7.0))
    assert groups.read([UID]) == {}
    Node(tmp_path).pod(UID)
    assert groups.read([UID]) == {UID: SOUND}


BEFORE = PodCounters(10.0, 5.0, 1.0, 0.5)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(BEFORE._replace(cpu_s=6.0), id="no time passed"),
        pytest.param(PodCounters(9.0, 6.0, 2.0, 0.5), id="time went backwards"),
        pytest.param(PodCounters(11.0, 4.9, 2.0, 0.5), id="CPU time fell"),
        pytest.param(PodCounters(11.0, 6.0, 0.9, 0.5), id="waiting fell"),
    ],
)
def test_use_is_unknown_between_readings_that_do_not_follow_each_other(after):
    assert pod_use_between(BEFORE, after) is None


def test_an_idle_pod_uses_nothing_but_memory():
    assert pod_use_between(BEFORE, BEFORE._replace(at_s=20.0)) == PodUse(0.0, 0.0, 0.5, 0.0)


numbers = st.floats(0, 1e9)
readings = st.builds(PodCounters, numbers, numbers, numbers, st.floats(0, 1e6))


@given(readings, readings)
def test_use_is_never_negative_and_waiting_is_a_share(one, other):
    use = pod_use_between(one, other)
    if use is None:
        assert other.at_s <= one.at_s or other.cpu_s < one.cpu_s or other.waited_s < one.waited_s
    else:
        assert use.cores >= 0
        assert 0 <= use.waiting <= 1
        assert use.gib == other.gib
