"""The cgroup source on trees as kernels write them, and on a group of this machine with a busy process in it."""

import errno
import itertools
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from carico.errors import PressureDisabled, TelemetryFileMissing, TelemetryMalformed
from carico.telemetry.cgroup import CgroupSource
from carico.telemetry.counters import telemetry_between
from carico.telemetry.sampler import Sampler
from carico.testing import FakeProc, ManualClock

from .cgroup_trees import MIB, NO_LIMIT, NO_PRESSURE, TREES


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


class Node:
    """A container's /sys/fs/cgroup, and the /proc of a machine with 8 CPUs and 16 GiB."""

    def __init__(self, folder, kind):
        self.kind = kind
        self.root = folder / "cgroup"
        self.clock = ManualClock(100.0)
        FakeProc(folder / "proc").write("stat", "cpu  1 2 3 4 5 6 7 8\n" + "".join(f"cpu{n} 1\n" for n in range(8)))
        self.proc = folder / "proc"
        for file, content in TREES[kind].items():
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            (self.root / file).write_text(content)

    def write(self, **files):
        """Change files in place; `NAMES` gives each hierarchy's file for a common name."""
        for name, content in files.items():
            (self.root / NAMES[self.kind][name]).write_text(content)

    def source(self, **options):
        return CgroupSource(self.root, proc=self.proc, clock=self.clock, **options)

    def set_used(self, seconds):
        if self.kind == "v2":
            self.write(usage=f"usage_usec {round(5e6 + 1e6 * seconds)}\nuser_usec 0\n")
        else:
            self.write(usage=f"{round(5e9 + 1e9 * seconds)}\n")

    def memory_stat(self, number):
        """Return the content of memory.stat with this many bytes in the page cache."""
        return f"anon 0\nfile {number}\n" if self.kind == "v2" else f"cache 0\ntotal_cache {number}\n"

    def set_waited(self, seconds):
        self.write(pressure=NO_PRESSURE.format(round(1000 + 1e6 * seconds)))


OLD = {
    "usage": "cpuacct/cpuacct.usage",
    "cpu_stat": "cpu/cpu.stat",
    "cpus": "cpuset/cpuset.effective_cpus",
    "limit": "memory/memory.limit_in_bytes",
    "in_use": "memory/memory.usage_in_bytes",
    "memory_stat": "memory/memory.stat",
    "quota": "cpu/cpu.cfs_quota_us",
    "pressure": "unified/cpu.pressure",
}
NAMES = {
    "v2": {
        "usage": "cpu.stat",
        "cpus": "cpuset.cpus.effective",
        "limit": "memory.max",
        "in_use": "memory.current",
        "memory_stat": "memory.stat",
        "quota": "cpu.max",
        "pressure": "cpu.pressure",
    },
    "v1": OLD,
    "hybrid": OLD,
}


@pytest.fixture(params=list(TREES))
def node(tmp_path, request):
    return Node(tmp_path, request.param)


def make(tmp_path, kind):
    return Node(tmp_path, kind)


def test_the_hierarchy_is_detected_and_no_file_stays_open(node):
    before = descriptors()
    with node.source() as source:
        source.read()
        assert source.hierarchy == node.kind
    source.close()
    assert descriptors() == before
    with pytest.raises(TelemetryFileMissing):
        source.read()


def test_utilisation_is_a_share_of_the_quota(node):
    with node.source() as source:
        before = source.read()
        node.set_used(1.5)
        node.clock.advance(1.0)
        after = source.read()
    assert telemetry_between(before, after).cpu_utilisation == pytest.approx(0.75)


@pytest.mark.parametrize(("cpus", "number"), [("0-3\n", 4), ("1\n", 1), ("0-1,3,5-7\n", 6), (None, 8)])
def test_without_a_quota_utilisation_is_a_share_of_the_cpus(node, cpus, number):
    node.write(quota="max 100000\n" if node.kind == "v2" else "-1\n")
    if cpus is None:
        (node.root / NAMES[node.kind]["cpus"]).unlink()
    else:
        node.write(cpus=cpus)
    with node.source() as source:
        before = source.read()
        node.set_used(0.5 * number)
        node.clock.advance(1.0)
        after = source.read()
    assert telemetry_between(before, after).cpu_utilisation == pytest.approx(0.5)


def test_a_quota_above_the_cpus_grants_only_the_cpus(node):
    node.write(quota="900000 100000\n" if node.kind == "v2" else "900000\n")
    with node.source() as source:
        before = source.read()
        node.set_used(2.0)
        node.clock.advance(1.0)
        assert telemetry_between(before, source.read()).cpu_utilisation == pytest.approx(0.5)


def test_a_changed_quota_counts_from_the_change_on(node):
    with node.source() as source:
        first = source.read()
        node.set_used(2.0)
        node.clock.advance(1.0)
        second = source.read()
        node.write(quota="100000 100000\n" if node.kind == "v2" else "100000\n")
        node.set_used(2.5)
        node.clock.advance(1.0)
        third = source.read()
    assert telemetry_between(first, second).cpu_utilisation == pytest.approx(1.0)
    assert telemetry_between(second, third).cpu_utilisation == pytest.approx(0.5)


def test_only_thorough_captures_read_limits(node):
    captures = []
    with node.source() as source:
        for second in range(5):
            if second == 2:
                node.write(quota="100000 100000\n" if node.kind == "v2" else "100000\n")
            node.set_used(0.5 * second)
            captures.append(source.capture(thorough=second in (0, 3)))
            node.clock.advance(1.0)
    readings = [capture() for capture in captures]
    samples = [telemetry_between(before, after) for before, after in itertools.pairwise(readings)]
    assert [sample.cpu_utilisation for sample in samples] == pytest.approx([0.25, 0.25, 0.5, 0.5])


def test_captures_that_are_not_thorough_repeat_slow_values(node):
    with node.source() as source:
        first = source.capture(thorough=False)()  # there is nothing to repeat yet
        assert first.memory_total == 400 * MIB
        node.write(limit=f"{800 * MIB}\n", in_use=f"{100 * MIB}\n", memory_stat=node.memory_stat(40 * MIB))
        quick, thorough = (source.capture(thorough=thorough)() for thorough in (False, True))
    assert (quick.memory_total, thorough.memory_total) == (400 * MIB, 800 * MIB)
    for reading in (quick, thorough):
        assert reading.memory_total - reading.memory_free == 100 * MIB
        assert reading.memory_cached == 40 * MIB


def test_the_next_thorough_capture_notices_a_vanished_file(node):
    with node.source() as source:
        source.capture()
        (node.root / NAMES[node.kind]["usage"]).unlink()
        source.capture(thorough=False)()
        with pytest.raises(TelemetryFileMissing, match="removed or replaced"):
            source.capture()


def test_memory_in_use_excludes_the_page_cache(node):
    with node.source() as source:
        before = source.read()
        node.clock.advance(1.0)
        assert telemetry_between(before, source.read()).memory_utilisation == pytest.approx(0.5)
    assert before.memory_total == 400 * MIB


def test_without_a_limit_memory_is_the_machines(node):
    node.write(limit="max\n" if node.kind == "v2" else f"{NO_LIMIT}\n")
    with node.source() as source:
        assert source.read().memory_total == 16 * 2**30


@pytest.mark.parametrize("kind", ["v2", "hybrid"])
def test_pressure_is_the_groups_own(tmp_path, kind):
    node = make(tmp_path, kind)
    with node.source() as source:
        before = source.read()
        node.set_waited(0.25)
        node.clock.advance(1.0)
        after = source.read()
    assert telemetry_between(before, after).cpu_pressure == pytest.approx(0.25)
    assert (before.memory_pressure_us, before.io_pressure_us) == (31, 41)


@pytest.mark.parametrize(("threads", "pressure"), [(2, 0.0), (3, 0.5), (4, 1.0)])
def test_without_pressure_files_throttling_is_the_pressure(tmp_path, threads, pressure):
    """Busy threads that are granted two of four CPUs show the same pressure as on a machine with two CPUs."""
    node = make(tmp_path, "v1")
    with node.source() as source:
        before = source.read()
        stopped_ns = 4_000_000 + (threads - 2) * 10**9
        node.write(cpu_stat=f"nr_periods 20\nnr_throttled 13\nthrottled_time {stopped_ns}\n")
        node.clock.advance(1.0)
        after = source.read()
    assert telemetry_between(before, after).cpu_pressure == pytest.approx(pressure)
    assert (after.memory_pressure_us, after.io_pressure_us) == (0, 0)


@pytest.mark.parametrize("quota", ["50000\n", "400000\n"])
def test_a_changed_quota_is_not_pressure(tmp_path, quota):
    node = make(tmp_path, "v1")
    node.write(cpu_stat="nr_periods 20\nnr_throttled 13\nthrottled_time 3600000000000\n")
    with node.source() as source:
        before = source.read()
        node.write(quota=quota)
        node.clock.advance(1.0)
        after = source.read()
    assert telemetry_between(before, after).cpu_pressure == 0


def test_counters_restart_with_a_new_container_of_the_same_name(node):
    with node.source() as source:
        sampler = Sampler(source, node.clock)
        node.clock.on_advance = lambda seconds: node.set_used(node.clock.now() + seconds - 100.0)
        sampler.start()
        assert sampler.next_batch(3).samples.cpu_utilisation == pytest.approx([0.5] * 3)
        node.clock.on_advance = lambda seconds: node.set_used(-4.0 + node.clock.now() + seconds - 100.0)
        assert sampler.next_batch(1).samples is None
        assert sampler.next_batch(1).samples.cpu_utilisation == pytest.approx(0.5)


def test_a_group_below_the_root(tmp_path):
    for kind in TREES:
        node = make(tmp_path / kind, kind)
        node.root.rename(tmp_path / kind / "whole")
        for file in TREES[kind]:
            folder, _, name = file.rpartition("/")
            target = node.root / folder / "pods" / "a" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / kind / "whole" / file).rename(target)
        with node.source(group="/pods/a") as source:
            assert source.hierarchy == kind
            assert source.read().memory_total == 400 * MIB


def test_a_folder_without_cgroups_is_refused(tmp_path, node):
    before = descriptors()
    with pytest.raises(TelemetryFileMissing, match=r"neither cgroup.controllers .*v2.* nor cpuacct .*mount"):
        CgroupSource(tmp_path, proc=node.proc)
    with pytest.raises(TelemetryFileMissing, match="/gone"):
        node.source(group="gone")
    assert descriptors() == before


def test_a_folder_without_procfs_is_refused(tmp_path, node):
    with pytest.raises(TelemetryFileMissing, match="procfs is needed"):
        CgroupSource(node.root, proc=tmp_path)
    FakeProc(node.proc).write("stat", "cpu 1 2 3\n")
    with pytest.raises(TelemetryMalformed, match="every CPU"):
        node.source()


NEEDED = [
    (kind, file)
    for kind, tree in TREES.items()
    for file in tree
    if "controllers" not in file and "cpuset" not in file and "pressure" not in file
]


@pytest.mark.parametrize(("kind", "file"), NEEDED)
def test_a_missing_file_is_named_and_no_file_stays_open(tmp_path, kind, file):
    node = make(tmp_path, kind)
    (node.root / file).unlink()
    before = descriptors()
    if file == "cpu.max":  # without the controller there is no quota
        with node.source() as source:
            source.read()
    else:
        with pytest.raises(TelemetryFileMissing, match=file):
            node.source()
    assert descriptors() == before


@pytest.mark.parametrize(
    ("kind", "file"), [(kind, file) for kind in TREES for file in TREES[kind] if "contr" not in file]
)
def test_a_file_that_vanishes_later_is_an_error(tmp_path, kind, file):
    node = make(tmp_path, kind)
    with node.source() as source:
        source.read()
        (node.root / file).unlink()
        if kind == "hybrid" and file == "cpu/cpu.stat":  # needed only without pressure files
            source.read()
        else:
            with pytest.raises(TelemetryFileMissing, match=rf"{file} was removed"):
                source.read()


@pytest.mark.parametrize(
    ("kind", "file"), [(kind, file) for kind in TREES for file in TREES[kind] if "contr" not in file]
)
def test_garbage_is_refused_and_quoted(tmp_path, kind, file):
    node = make(tmp_path, kind)
    with node.source() as source:
        for content in ["", "\n", "garbage\n", "-7\n", "1 2 3\n", "0-\n", "3-1\n", "\xff"]:
            (node.root / file).write_text(content)
            if kind == "hybrid" and file == "cpu/cpu.stat":
                source.read()
            else:
                with pytest.raises(TelemetryMalformed, match=rf"{file} must hold .*, it holds '.*'"):
                    source.read()


@pytest.mark.parametrize(("kind", "content"), [("v2", "0 100000\n"), ("v2", "100 0\n"), ("v2", "max\n"), ("v1", "0\n")])
def test_a_quota_of_nothing_is_refused(tmp_path, kind, content):
    node = make(tmp_path, kind)
    node.write(quota=content)
    with node.source() as source, pytest.raises(TelemetryMalformed, match=r"cpu\.(max|cfs_quota_us) must hold"):
        source.read()


def test_pressure_that_is_switched_off_has_an_error_of_its_own(tmp_path, monkeypatch):
    node = make(tmp_path, "v2")
    real = os.pread

    def refused(descriptor, *rest):
        if "cpu.pressure" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(descriptor, *rest)

    with node.source() as source, monkeypatch.context() as patched:
        patched.setattr(os, "pread", refused)
        with pytest.raises(PressureDisabled, match=r"psi=1.*cgroup\.pressure"):
            source.read()
    (node.root / "cpu.pressure").unlink()
    with pytest.raises(PressureDisabled, match="psi=1"):
        node.source()


class Group:
    """A cgroup of this machine with a fifth of a CPU, in every hierarchy that is mounted."""

    ROOT = Path("/sys/fs/cgroup")

    def __init__(self):
        self.name = f"carico-test-{uuid.uuid4().hex}"
        if (self.ROOT / "cgroup.controllers").exists():
            self.folders = [self.ROOT / self.name]
        else:
            trees = (self.ROOT / tree for tree in ("cpu", "cpuacct", "memory", "unified"))
            self.folders = list(dict.fromkeys(tree.resolve() / self.name for tree in trees if tree.is_dir()))

    def make(self):
        for folder in self.folders:
            folder.mkdir()
        for folder in self.folders:
            if (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text("20000 100000")
            if (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_quota_us").write_text("20000")

    def add(self, pid):
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        for folder in self.folders:
            if folder.is_dir():
                folder.rmdir()


@pytest.fixture
def busy_group():
    group, process = Group(), None
    try:
        group.make()
        process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        group.add(process.pid)
        yield group
    except OSError as error:
        pytest.fail(f"this test creates a cgroup below {group.ROOT}, which needs root: {error}", pytrace=False)
    finally:
        if process is not None:
            process.kill()
            process.wait()
        group.remove()


@pytest.mark.machine
@pytest.mark.quiet
def test_on_this_machine_a_throttled_process_shows_utilisation_and_pressure(busy_group):
    with CgroupSource(group=busy_group.name) as source:

        def during(seconds):
            first = reading = source.read()
            while reading.at_s < first.at_s + seconds:
                time.sleep(0.05)  # PSI weights CPUs between two readings: rare readings understate the pressure
                reading = source.read()
            return telemetry_between(first, reading)

        # On a busy machine the process sometimes gets less than its quota.
        attempts = (during(0.6) for _ in range(20))
        telemetry = next((attempt for attempt in attempts if attempt.cpu_utilisation > 0.6), None)
    assert telemetry is not None
    assert 0 < telemetry.memory_utilisation < 0.5
    # The quota stops the process for four fifths of the time: pressure files count all of it, throttled time a part.
    assert telemetry.cpu_pressure > (0.1 if source.hierarchy == "v1" else 0.5)
