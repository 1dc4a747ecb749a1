"""CPU time that a hypervisor gave to other guests, from the kernel's counters."""

import pytest

from testbed.measurement.stolen_cpu import StolenCpu

BEFORE = "cpu 100 0 50 800 10 0 5 35 7 0\ncpu0 100 0 50 800 10 0 5 35 7 0\n"


@pytest.fixture
def stat(tmp_path):
    file = tmp_path / "stat"
    file.write_text(BEFORE)
    return file


def test_the_share_is_of_all_cpu_time_since_the_beginning(stat):
    measured = StolenCpu(stat)
    stat.write_text("cpu 130 0 60 820 10 0 5 75 99 0\n")  # guest time is in user time already
    (item,) = measured.items()
    assert (item.data, item.unit, item.labels) == ({"value": 0.4}, "share", {"metric": "machine_cpu_stolen"})


def test_a_counter_that_falls_is_no_theft(stat):
    measured = StolenCpu(stat)
    stat.write_text("cpu 200 0 60 820 10 0 5 30 0 0\n")
    assert measured.items()[0].data == {"value": 0.0}


@pytest.mark.parametrize("content", ["", "cpu 1 2 3\n", "cpu a b c d e f g h\n", "intr 1 2 3 4 5 6 7 8\n", BEFORE])
def test_what_cannot_be_told_is_left_out(stat, content):
    measured = StolenCpu(stat)
    stat.write_text(content)
    assert measured.items() == []


def test_no_kernel_that_counts_is_none_to_tell(tmp_path):
    assert StolenCpu(tmp_path / "stat").items() == []
