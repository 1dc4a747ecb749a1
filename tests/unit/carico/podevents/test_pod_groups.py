"""What pods use, from folders like those of the kernel."""

import logging
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.podevents.pod_groups import PodGroups
from carico.telemetry.counters import PodCounters, pod_use_between
from carico.testing import ManualClock

from .test_cgroups import STATIC, UIDS, cgroupfs, kind_systemd, systemd

FILES = {
    "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnice_usec 0\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=125000\nfull avg10=0.00 avg60=0.00 total=0\n",
    "memory.current": f"{3 * 2**30}\n",
    "memory.stat": f"anon {2**30}\nfile {2**29}\nkernel 4096\n",
}
CLASSES = "guaranteed", "burstable", "besteffort"


def make(folder, **changed):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (FILES | changed).items():
        if content is not None:
            (folder / name).write_text(content)
    return folder


@pytest.fixture
def groups(tmp_path):
    return PodGroups(tmp_path, ManualClock(7.0))


@pytest.mark.parametrize("layout", [cgroupfs, systemd, kind_systemd])
def test_pods_of_all_classes_are_read(groups, tmp_path, layout):
    for klass, uid in zip(CLASSES, UIDS, strict=False):
        make(layout(tmp_path, klass, uid))
    assert groups.read(UIDS[:2]) == dict.fromkeys(UIDS[:2], PodCounters(7.0, 2.5, 0.125, 2.5))
    assert set(groups.read(UIDS)) == set(UIDS[:3]), "the fourth has no group"


def test_pods_come_and_go(groups, tmp_path):
    first, second = (make(cgroupfs(tmp_path, "burstable", uid)) for uid in UIDS[:2])
    assert set(groups.read(UIDS[:2])) == set(UIDS[:2])
    shutil.rmtree(first)
    assert set(groups.read(UIDS[:2])) == {UIDS[1]}
    make(second, **{"cpu.stat": "usage_usec 4000000\n"})
    make(systemd(tmp_path.joinpath("ignored"), "burstable", UIDS[2]))
    make(first)
    assert {uid: each.cpu_s for uid, each in groups.read(UIDS[:2]).items()} == {UIDS[0]: 2.5, UIDS[1]: 4.0}


@pytest.mark.parametrize(
    "damage",
    [
        {"cpu.stat": "nr_periods 0\n"},
        {"cpu.stat": None},
        {"cpu.stat": "usage_usec -1\n"},
        {"cpu.pressure": None},
        {"cpu.pressure": "full avg10=0.00 total=0\n"},
        {"memory.current": "max\n"},
        {"memory.current": ""},
        {"memory.stat": "anon 1\n"},
        {"memory.stat": "file 1"},
    ],
    ids=str,
)
def test_a_pod_that_cannot_be_read_spares_the_others(groups, tmp_path, caplog, damage):
    make(cgroupfs(tmp_path, "burstable", UIDS[0]))
    make(cgroupfs(tmp_path, "burstable", UIDS[1]), **damage)
    with caplog.at_level(logging.INFO):
        assert set(groups.read(UIDS[:2])) == {UIDS[0]}
    assert not caplog.messages


def test_more_cache_than_memory_between_two_files_is_no_memory(groups, tmp_path):
    make(cgroupfs(tmp_path, "burstable", UIDS[0]), **{"memory.current": "4096\n"})
    assert groups.read(UIDS)[UIDS[0]].gib == 0


def test_it_is_told_once_that_no_pod_can_be_read(groups, tmp_path, caplog):
    folder = cgroupfs(tmp_path.joinpath("cpu"), "burstable", UIDS[0])
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert groups.read(UIDS) == {}, "there is no kubelet"
        make(folder, **{"cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"})
        for _ in range(2):
            assert groups.read(UIDS) == {}, "this is cgroup v1"
    kubelet, v1 = caplog.messages
    assert "holds no control group kubepods" in kubelet
    assert 'cpu.stat must hold "usage_usec N", it holds' in v1


def test_static_pods_are_not_read(groups, tmp_path):
    make(cgroupfs(tmp_path, "burstable", STATIC))
    assert groups.read([STATIC]) == {}


class TestUse:
    BEFORE = PodCounters(10.0, 2.0, 1.0, 0.5)

    def test_is_what_grew_per_second(self):
        assert pod_use_between(self.BEFORE, PodCounters(15.0, 3.0, 2.0, 0.75)) == pytest.approx((0.2, 0.2, 0.75, 0.05))

    @pytest.mark.parametrize("after", [(10.0, 3.0, 2.0), (9.0, 3.0, 2.0), (15.0, 1.9, 2.0), (15.0, 3.0, 0.9)])
    def test_is_unknown_if_a_counter_fell(self, after):
        assert pod_use_between(self.BEFORE, PodCounters(*after, 0.5)) is None

    @given(st.floats(10.001, 1e6), st.floats(2.0, 1e9), st.floats(1.0, 1e9), st.floats(0, 1e4))
    def test_is_possible_whatever_grew(self, at, cpu_s, waited_s, gib):
        use = pod_use_between(self.BEFORE, PodCounters(at, cpu_s, waited_s, gib))
        assert use.cores >= 0
        assert 0 <= use.waiting <= 1
        assert use.gib == gib
