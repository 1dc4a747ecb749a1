"""What a machine has read from its disks."""

import itertools

import pytest

from carico.errors import TelemetryFileMissing, TelemetryMalformed
from carico.telemetry.counters import disk_use_between
from carico.telemetry.disks import DiskCounters, DiskStats
from carico.telemetry.procfs import ProcfsSource
from carico.testing import FakeProc, ManualClock

# Recorded on a machine with Linux 6.18; two lines are made up.
RECORDED = """\
   7       0 loop0 9 0 9 9 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 2306645 171312 88926074 1708346 3829469 2573907 302362168 7208353 0 1082828 9699049 1787017 77
 254       1 vda1 2306645 171312 88926074 1708346 3829469 2573907 302362168 7208353 0 1082828 9699049 1787017 77
 259       0 nvme0n1 10 0 80 3 0 0 0 0 0 3 3
 259       1 nvme0n1p1 10 0 80 3 0 0 0 0 0 3 3
 253       0 zram0 9 9 9 9 9 9 9 9 9 9 9
   9       0 md0 9 9 9 9 9 9 9 9 9 9 9
"""


@pytest.fixture
def stats(tmp_path):
    path = tmp_path / "diskstats"

    def make(content):
        path.write_text(content)
        return DiskStats(path, "procfs")

    return make


def test_disks_are_counted_once(stats):
    with stats(RECORDED) as file:
        assert file.counters() == DiskCounters(1708346 + 3, 88926074 + 80 + 128 * (2306645 + 10))


@pytest.mark.parametrize("name", ["sda", "sdaa", "hdb", "vdz", "xvda", "nvme12n3", "mmcblk0", "dasda"])
def test_a_disk_is_known_by_its_name(stats, name):
    with stats(f" 8 0 {name} 1 0 8 5 0 0 0 0 0 0 0\n") as file:
        assert file.counters() == DiskCounters(5, 136)


@pytest.mark.parametrize(
    "content", ["", "7 0 loop0 1 0 8 5\n", "8 1 sda1 1 0 8 5\n", "179 1 mmcblk0p1 1 0 8 5\n", "?\n"]
)
def test_a_machine_may_have_no_disks(stats, content):
    with stats(content) as file:
        assert file.counters() == DiskCounters(0, 0)


@pytest.mark.parametrize("fields", ["", "1 0 8", "1 0 8 -5", "1 0 eight 5", "1 0 8 5.0"])
def test_what_the_kernel_does_not_write_is_refused(stats, fields):
    with stats(f"8 0 sda {fields}\n") as file, pytest.raises(TelemetryMalformed, match="4 numbers after a disk's name"):
        file.counters()


class TestSource:
    @pytest.fixture
    def machine(self, tmp_path):
        return FakeProc(tmp_path)

    def test_the_reads_under_way_follow_littles_law(self, machine):
        clock = ManualClock()
        clock.on_advance = machine.elapse
        with ProcfsSource(machine.root, clock) as source:
            before = source.read()
            machine.reads_per_s, machine.read_s = 100.0, 0.025
            clock.advance(4.0)
            use = disk_use_between(before, source.read())
        assert use.reading == pytest.approx(2.5)
        assert use.work_per_s == pytest.approx(100 * (256 + 128))

    def test_only_thorough_captures_read_disks(self, machine):
        machine.reads_per_s = 1000.0
        with ProcfsSource(machine.root, ManualClock()) as source:
            first = source.capture()()
            machine.elapse(1.0)
            assert source.capture(thorough=False)().disk_read_work == first.disk_read_work
            assert source.capture()().disk_read_work > first.disk_read_work

    def test_a_machine_that_shows_no_disks_is_read_all_the_same(self, machine):
        machine.remove("diskstats")
        clock = ManualClock()
        with ProcfsSource(machine.root, clock) as source:
            before = source.read()
            clock.advance(1.0)
            assert disk_use_between(before, source.read()) is None

    def test_a_file_that_is_removed_later_is_missed(self, machine):
        with ProcfsSource(machine.root, ManualClock()) as source:
            machine.remove("diskstats")
            with pytest.raises(TelemetryFileMissing, match="diskstats was removed"):
                source.read()

    def test_a_disk_that_is_taken_away_leaves_one_gap(self, machine):
        """As a volume of the cloud is, with every pod that uses it."""
        clock = ManualClock()
        readings = []
        with ProcfsSource(machine.root, clock) as source:
            for disks in ("8 0 sda 9 0 9 9\n8 16 sdb 9 0 9 9\n", "8 0 sda 9 0 9 9\n", "8 0 sda 10 0 10 9\n"):
                machine.write("diskstats", disks)
                clock.advance(1.0)
                readings.append(source.read())
        gap, use = (disk_use_between(*pair) for pair in itertools.pairwise(readings))
        assert gap is None
        assert use == (0.0, 129.0)
