"""Checks of a machine's free memory and CPU."""

import pytest

from testbed.experiment import free_resources
from testbed.experiment.free_resources import MOMENTS, shortages


@pytest.fixture
def free_cpus():
    """Replaces the folder's fixture, because these tests measure free CPUs."""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function of the idle CPUs in each moment; it returns the problems and the number of moments."""
    monkeypatch.setattr(free_resources, "meminfo_bytes", lambda name: 2**31)
    uptime = tmp_path / "uptime"

    def watched(idle, needed=0.25, needed_bytes=2**30):
        uptime.write_text("100.00 50.00\n")
        shares, slept = iter(idle), []

        def sleep(seconds):
            slept.append(seconds)
            up, idled = map(float, uptime.read_text().split())
            uptime.write_text(f"{up + seconds:.2f} {idled + next(shares) * seconds:.2f}\n")

        return [str(problem) for problem in shortages("kind", needed_bytes, needed, sleep, uptime)], len(slept)

    return watched


def test_one_free_moment_is_enough(machine):
    assert machine([0.0, 0.1, 1.5]) == ([], 3)


def test_a_busy_machine_is_a_problem(machine):
    problems, watched = machine([0.0] * (MOMENTS - 1) + [0.2])
    assert watched == MOMENTS
    assert problems == [
        "a kind cluster needs 0.25 free CPUs, at most 0.20 were free in 5 s: end other programs, or run fewer processes"
    ]


def test_cpu_is_not_measured_if_none_is_needed(machine):
    assert machine([], needed=0.0) == ([], 0)


def test_too_little_memory_is_a_problem(machine):
    assert machine([1.0], needed_bytes=2**32) == (
        [
            "a kind cluster needs 4,096 MiB of memory, 2,048 MiB are available: "
            "end other programs, or run fewer processes"
        ],
        1,
    )


def test_unknown_resources_are_no_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(free_resources, "meminfo_bytes", lambda name: None)
    assert list(shortages("kind", 2**30, 0.25, uptime=tmp_path / "gone")) == []
