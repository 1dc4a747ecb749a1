"""How many reads a node lets be under way, on disks of several kinds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.disk import Disk
from carico.errors import InvalidState
from carico.telemetry.counters import SECTORS_PER_READ, DiskUse

STEP_S = 0.5
WORK_PER_S = 100.0 * 3 * SECTORS_PER_READ
"""What a disk reads with one read under way: 100 reads of 128 KiB a second."""


def with_an_arm(reads):
    """Reads less for two programs than for one, and hardly less for more (an HDD)."""
    return 1 / (1 + 1.7 * (1 - 1 / max(reads, 1)))


def with_streams(streams):
    """Reads as much for more programs as for so many."""
    return lambda reads: min(reads, streams)


def that_grows(reads):
    """Reads more for more programs, but takes longer for each of them, as a network disk was measured to."""
    return max(reads, 1) ** 0.5


def reading(disk, served, reads, seconds=20.0):
    for _ in range(int(seconds / STEP_S)):
        disk.observe(DiskUse(reads, served(reads) * WORK_PER_S * min(reads, 1.0)), STEP_S)


def filled(served, pods=200, each=0.9, seconds=20.0):
    """Add pods that read nearly all the time, as long as half of the next one fits, and return what is learned."""
    disk, reads = Disk(900.0), 0.0
    for _ in range(pods):
        if reads + each / 2 <= disk.level:
            reads += each
        elif reads > disk.level:
            reads -= each
        reading(disk, served, reads, seconds)
    return disk, reads


def test_a_disk_with_an_arm_ends_with_one_reader():
    disk, reads = filled(with_an_arm)
    assert disk.level == 1.25
    assert reads == pytest.approx(0.9)


@pytest.mark.parametrize("streams", [2, 4, 8, 16])
def test_a_disk_with_several_streams_ends_with_enough_readers_to_keep_it_busy(streams):
    disk, reads = filled(with_streams(streams), seconds=3.0)
    assert streams <= disk.level <= 2.5 * streams
    assert reads >= streams - 0.9


def test_a_disk_that_reads_more_the_more_it_is_asked_to_is_not_held_back():
    _, reads = filled(that_grows, pods=100)
    assert reads == pytest.approx(90.0)


def test_one_disturbed_number_of_readers_is_no_limit():
    disk = Disk(900.0)
    for reads in (0.9, 2.0, 4.0, 8.0):
        reading(disk, that_grows if reads != 4.0 else lambda reads: 0.5, reads)
    assert disk.level == pytest.approx(16.0)


def test_what_was_not_tried_is_tried():
    disk = Disk(900.0)
    assert disk.level == 2.0
    for reads in (1.0, 2.0, 4.0, 8.0):
        reading(disk, with_streams(100), reads)
        assert disk.level == pytest.approx(2 * reads)


def test_without_knowing_a_single_reader_no_more_of_them_are_tried():
    disk = Disk(900.0)
    reading(disk, with_an_arm, 4.0)
    assert disk.level == pytest.approx(5.0)
    reading(disk, with_an_arm, 0.9)
    assert disk.level == 1.25


def test_a_slower_kind_of_reads_is_not_taken_for_a_saturated_disk_for_long():
    """Reads from a cache, and then reads that miss it, of which the disk serves many at a time."""
    disk = Disk(900.0)
    reading(disk, lambda reads: 30.0, 0.9)
    reading(disk, with_streams(16), 2.0)
    assert disk.level == 1.25, "two at a time read much less than one did"
    reading(disk, with_streams(16), 0.9, seconds=60.0)
    assert disk.level >= 2.0, "one at a time reads no more, either"


def test_after_a_while_it_is_tried_again():
    disk = Disk(900.0)
    reading(disk, with_an_arm, 0.9)
    reading(disk, with_an_arm, 2.0)
    assert disk.level == 1.25
    reading(disk, with_an_arm, 0.9, seconds=890.0)
    assert disk.level == 1.25
    reading(disk, with_an_arm, 0.9, seconds=20.0)
    assert disk.level == 2.0


def test_a_disk_that_is_hardly_used_says_nothing():
    disk = Disk(900.0)
    reading(disk, lambda reads: 1e-3, 2.0)
    disk.observe(DiskUse(0.0, 1e6), STEP_S)
    assert disk.level == 2.0
    assert disk.save() == {}


uses = st.builds(DiskUse, st.floats(0, 1e7), st.floats(0, 1e9))


@given(st.lists(uses, max_size=30), st.floats(0.1, 1e3))
def test_any_observations_leave_room_for_a_reader(observed, elapsed_s):
    disk = Disk(900.0)
    for use in observed:
        disk.observe(use, elapsed_s)
        assert 1.25 <= disk.level <= 1e8


@given(st.lists(uses, max_size=30))
def test_what_was_learned_comes_back(observed):
    disk, again = Disk(900.0), Disk(900.0)
    for use in observed:
        disk.observe(use, STEP_S)
    again.restore(json.loads(json.dumps(disk.save())))
    assert again.save() == disk.save()
    assert again.level == disk.level


@pytest.mark.parametrize(
    "damaged",
    [{"-1": [1.0, 1.0, 0.0]}, {"21": [1.0, 1.0, 0.0]}, {"a": [1.0, 1.0, 0.0]}, {"0": [1.0]}, {"0": None},
     {"0": [1.0, -1.0, 0.0]}, {"0": [float("nan"), 1.0, 0.0]}],
)  # fmt: skip
def test_a_damaged_state_is_refused_and_changes_nothing(damaged):
    disk = Disk(900.0)
    reading(disk, with_an_arm, 0.9)
    saved = disk.save()
    with pytest.raises(InvalidState, match="delete it"):
        disk.restore(damaged)
    assert disk.save() == saved
