"""The sampling loop under a clock moved by hand."""

from itertools import islice

import numpy as np
import pytest

from carico.errors import InvalidInput, TelemetryFileMissing, TelemetryMalformed
from carico.telemetry.procfs import ProcfsSource
from carico.telemetry.sampler import Sampler
from carico.testing import FakeProc, ManualClock


@pytest.fixture
def clock():
    return ManualClock(now=1000.0)


@pytest.fixture
def machine(tmp_path, clock):
    machine = FakeProc(tmp_path)
    clock.on_advance = machine.elapse
    return machine


@pytest.fixture
def sampler(machine, clock):
    with ProcfsSource(machine.root, clock) as source:
        yield Sampler(source, clock)


def counted(sampler):
    return sampler.missed, sampler.unchanged, sampler.restarts


def test_ten_samples_a_second_on_absolute_deadlines(sampler, machine):
    machine.cpu_utilisation, machine.cpu_pressure, machine.memory_utilisation = 0.5, 0.25, 0.75
    machine.memory_pressure, machine.io_pressure = 0.125, 0.0625
    samples = list(islice(sampler.samples(), 1000))
    assert [sample.at_s for sample in samples] == [1000.0 + tick / 10 for tick in range(1, 1001)]
    assert np.array([sample.cpu_utilisation for sample in samples]) == pytest.approx(0.5)
    for sample in samples[:10]:
        assert sample.cpu_pressure == pytest.approx(0.25, abs=1e-5)
        assert sample.memory_pressure == pytest.approx(0.125, abs=1e-4)
        assert sample.io_pressure == pytest.approx(0.0625, abs=1e-4)
        assert sample.memory_utilisation == pytest.approx(0.75)
    assert counted(sampler) == (0, 0, 0)


def test_a_period_of_ones_own(machine, clock):
    with ProcfsSource(machine.root, clock) as source:
        samples = list(islice(Sampler(source, clock, period_s=0.25).samples(), 4))
    assert [sample.at_s for sample in samples] == [1000.25, 1000.5, 1000.75, 1001.0]


@pytest.mark.parametrize("period_s", [0, -1, 1e-4, float("nan"), float("inf"), "often"])
def test_a_period_that_makes_no_sense(machine, clock, period_s):
    with ProcfsSource(machine.root, clock) as source, pytest.raises(InvalidInput, match="period_s"):
        Sampler(source, clock, period_s)


def test_a_late_sample_has_its_true_interval_and_missed_deadlines_are_left_out(sampler, machine, clock):
    samples = sampler.samples()
    machine.cpu_pressure = 0.5
    next(samples)
    clock.advance(0.35)
    late, on_time = next(samples), next(samples)
    assert (late.at_s, on_time.at_s) == pytest.approx((1000.5, 1000.6))
    assert late.cpu_pressure == pytest.approx(0.5)
    assert sampler.missed == 3


def test_what_is_due_is_told(sampler, clock):
    sampler.start()
    assert (sampler.tick, sampler.due) == (0, 1000.0)
    clock.advance(0.05)
    sampler.next_sample()
    assert (sampler.tick, sampler.due) == (1, 1000.1)


def test_the_same_reading_again_is_no_sample(machine, clock):
    class Slow(ProcfsSource):
        """Has something newer every other time."""

        times, last = 0, None

        def read(self):
            self.times += 1
            if self.times % 2:
                self.last = super().read()
            return self.last

    machine.cpu_utilisation = 0.5
    with Slow(machine.root, clock) as source:
        sampler = Sampler(source, clock)
        samples = list(islice(sampler.samples(), 5))
    assert [sample.at_s for sample in samples] == pytest.approx([1000.2, 1000.4, 1000.6, 1000.8, 1001.0])
    assert [sample.cpu_utilisation for sample in samples] == pytest.approx([0.5] * 5)
    assert counted(sampler) == (0, 5, 0)


def test_after_a_restart_it_starts_anew(sampler, machine, clock):
    samples = sampler.samples()
    machine.cpu_utilisation = 0.5
    list(islice(samples, 3))
    restarted = FakeProc(machine.root)  # the same files, whose counters begin at 0
    restarted.cpu_utilisation = 0.25
    clock.on_advance = restarted.elapse
    after = list(islice(samples, 2))
    assert [sample.at_s for sample in after] == pytest.approx([1000.5, 1000.6])
    assert [sample.cpu_utilisation for sample in after] == pytest.approx([0.25] * 2)
    assert counted(sampler) == (0, 0, 1)


def test_an_error_is_the_callers_and_does_not_end_the_sampler(sampler, machine, clock):
    sampler.next_sample()
    clock.on_advance = lambda seconds: None
    machine.write("stat", "garbage\n")
    with pytest.raises(Exception, match="garbage"):
        sampler.next_sample()
    clock.on_advance = machine.elapse
    machine.cpu_utilisation = 1.0
    sample = sampler.next_sample()
    assert sample.at_s == pytest.approx(1000.3)
    machine.remove("stat")
    clock.on_advance = lambda seconds: None
    with pytest.raises(TelemetryFileMissing):
        sampler.next_sample()


class TestCaptures:
    """What an agent does: read at every deadline, look at what was read later."""

    def test_make_the_same_series_as_samples_one_by_one(self, sampler, machine):
        machine.cpu_utilisation = 0.5
        captures = sampler.captures_until(5)
        machine.cpu_utilisation = 0.0  # no longer what was read
        readings = [sampler.taken(capture) for capture in captures]
        series = sampler.series(readings)
        assert series.at_s == pytest.approx([1000.1, 1000.2, 1000.3, 1000.4, 1000.5])
        assert series.cpu_utilisation == pytest.approx([0.5] * 5)

    def test_that_tell_nothing_new_are_none(self, sampler):
        (capture,) = sampler.captures_until(0)
        assert sampler.taken(capture) is not None
        assert sampler.taken(capture) is None
        assert counted(sampler) == (0, 1, 0)

    def test_across_a_restart_are_no_series(self, sampler, machine, clock):
        captures = sampler.captures_until(2)
        restarted = FakeProc(machine.root)
        clock.on_advance = restarted.elapse
        captures += sampler.captures_until(4)
        assert sampler.series([sampler.taken(capture) for capture in captures]) is None
        assert counted(sampler) == (0, 0, 1)

    def test_that_hold_something_else_say_so_when_they_are_looked_at(self, sampler, machine, clock):
        sampler.captures_until(0)
        clock.on_advance = lambda seconds: None
        machine.write("stat", "garbage\n")
        (capture,) = sampler.captures_until(1)
        with pytest.raises(TelemetryMalformed, match="garbage"):
            sampler.taken(capture)

    def test_are_thorough_at_the_last_deadline_or_the_first_one_after_it(self, machine, clock):
        thorough = []

        class Source(ProcfsSource):
            def capture(self, thorough_one=True):
                thorough.append(thorough_one)
                return super().capture(thorough_one)

        with Source(machine.root, clock) as source:
            sampler = Sampler(source, clock)
            sampler.captures_until(0)
            sampler.captures_until(3)
            clock.advance(0.25)
            sampler.captures_until(5)
        assert thorough == [True, False, False, True, True]
        assert (sampler.tick, sampler.missed) == (6, 2)

    def test_end_at_once_where_that_is_asked_for(self, sampler, clock):
        sampler.captures_until(0)
        assert len(sampler.captures_until(10, lambda: sampler.tick == 4)) == 4
        assert (sampler.tick, clock.now()) == (4, pytest.approx(1000.4))
        assert sampler.captures_until(10, lambda: True) == []
