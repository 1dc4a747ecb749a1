"""The sampling loop under a clock moved by hand."""

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


def test_ten_samples_a_second_on_absolute_deadlines(sampler, machine):
    machine.cpu_utilisation, machine.cpu_pressure, machine.memory_utilisation = 0.5, 0.25, 0.75
    sampler.start()
    samples = sampler.next_batch(1000).samples
    assert samples.at_s.tolist() == [1000.0 + tick / 10 for tick in range(1, 1001)]
    assert samples.cpu_utilisation == pytest.approx([0.5] * 1000)
    assert samples.cpu_pressure[:10] == pytest.approx([0.25] * 10, abs=1e-5)
    assert samples.memory_utilisation[:10] == pytest.approx([0.75] * 10)
    assert sampler.missed == 0


def test_a_chosen_period(machine, clock):
    with ProcfsSource(machine.root, clock) as source:
        sampler = Sampler(source, clock, period_s=0.25)
        sampler.start()
        samples = sampler.next_batch(4).samples
    assert samples.at_s.tolist() == [1000.25, 1000.5, 1000.75, 1001.0]


@pytest.mark.parametrize("period_s", [0, -1, 1e-4, float("nan"), float("inf"), "often"])
def test_an_invalid_period_is_refused(machine, clock, period_s):
    with ProcfsSource(machine.root, clock) as source, pytest.raises(InvalidInput, match="period_s"):
        Sampler(source, clock, period_s)


def test_a_late_sample_has_its_true_interval_and_missed_deadlines_are_skipped(sampler, machine, clock):
    machine.cpu_pressure = 0.5
    sampler.start()
    sampler.next_batch(1)
    clock.advance(0.35)
    samples = sampler.next_batch(6).samples
    assert samples.at_s == pytest.approx([1000.5, 1000.6])
    assert samples.cpu_pressure[0] == pytest.approx(0.5)
    assert sampler.missed == 3


def test_tick_and_due_follow_the_deadlines(sampler, clock):
    sampler.start()
    assert (sampler.tick, sampler.due) == (0, 1000.0)
    clock.advance(0.05)
    sampler.next_reading()
    assert (sampler.tick, sampler.due) == (1, 1000.1)


def test_a_repeated_reading_is_not_new(machine, clock):
    class Slow(ProcfsSource):
        """Has a newer reading every other time."""

        times, last = 0, None

        def capture(self, thorough=True):
            self.times += 1
            if self.times % 2:
                self.last = super().capture(thorough)()
            return lambda reading=self.last: reading

    machine.cpu_utilisation = 0.5
    with Slow(machine.root, clock) as source:
        sampler = Sampler(source, clock)
        sampler.start()
        assert sampler.next_reading() is None
        assert sampler.next_reading().at_s == pytest.approx(1000.2)
        samples = sampler.next_batch(10).samples
    assert samples.at_s == pytest.approx([1000.4, 1000.6, 1000.8, 1001.0])
    assert samples.cpu_utilisation == pytest.approx([0.5] * 4)


def test_after_a_restart_sampling_continues(sampler, machine, clock):
    machine.cpu_utilisation = 0.5
    sampler.start()
    assert sampler.next_batch(3).samples is not None
    restarted = FakeProc(machine.root)  # the same files, with counters from 0
    restarted.cpu_utilisation = 0.25
    clock.on_advance = restarted.elapse
    assert sampler.next_batch(1).samples is None
    samples = sampler.next_batch(2).samples
    assert samples.at_s == pytest.approx([1000.5, 1000.6])
    assert samples.cpu_utilisation == pytest.approx([0.25] * 2)


def test_an_error_is_raised_and_does_not_end_the_sampler(sampler, machine, clock):
    sampler.start()
    clock.on_advance = lambda seconds: None
    machine.write("stat", "garbage\n")
    with pytest.raises(TelemetryMalformed, match="garbage"):
        sampler.next_batch(1)
    clock.on_advance = machine.elapse
    machine.cpu_utilisation = 1.0
    assert sampler.next_batch(1).samples.at_s == pytest.approx(1000.2)
    machine.remove("stat")
    clock.on_advance = lambda seconds: None
    with pytest.raises(TelemetryFileMissing):
        sampler.next_batch(1)


class TestBatches:
    """Batches as the agent uses them: read at every deadline, parsed together at the last one."""

    def test_hold_the_content_at_reading_not_at_parsing(self, machine, clock):
        class Restless(ProcfsSource):
            """The machine changes between the last reading and the parsing."""

            def capture(self, thorough=True):
                captured = super().capture(thorough)
                return lambda: (machine.write("stat", "garbage\n"), captured())[1]

        machine.cpu_utilisation = 0.5
        with Restless(machine.root, clock) as source:
            sampler = Sampler(source, clock)
            sampler.start()
            batch = sampler.next_batch(5)
        assert batch.samples.cpu_utilisation == pytest.approx([0.5] * 5)

    def test_have_telemetry_of_the_whole_batch(self, sampler, machine):
        sampler.next_batch(10)
        machine.cpu_utilisation = 0.2
        sampler.next_batch(5)
        batches = []
        for machine.cpu_utilisation in (0.2, 0.6):
            batches.append(sampler.next_batch(5))
        assert [batch.whole.cpu_utilisation for batch in batches] == pytest.approx([0.2, 0.6])
        assert batches[-1].whole.at_s == pytest.approx(1001.5)

    def test_the_first_one_is_one_immediate_reading(self, sampler, clock):
        batch = sampler.next_batch(10)
        assert (len(batch.readings), batch.samples, clock.now()) == (1, None, 1000.0)

    def test_without_new_readings_have_no_samples(self, sampler, clock):
        sampler.start()
        clock.on_advance = lambda seconds: None
        assert sampler.next_batch(10).samples is None

    def test_across_a_restart_have_no_samples(self, sampler, machine, clock):
        restarted = []

        def restart(seconds):
            if clock.now() > 1000.15 and not restarted:
                restarted.append(FakeProc(machine.root))
            (restarted or [machine])[0].elapse(seconds)

        sampler.start()
        clock.on_advance = restart
        assert sampler.next_batch(4).samples is None
        assert sampler.next_batch(4).samples.at_s == pytest.approx([1000.5, 1000.6, 1000.7, 1000.8])

    def test_are_thorough_at_the_last_deadline_or_the_first_one_after_it(self, machine, clock):
        thorough = []

        class Source(ProcfsSource):
            def capture(self, thorough_one=True):
                thorough.append(thorough_one)
                return super().capture(thorough_one)

        with Source(machine.root, clock) as source:
            sampler = Sampler(source, clock)
            sampler.next_batch(3)
            sampler.next_batch(3)
            clock.advance(0.35)
            sampler.next_batch(3)
        assert thorough == [True, False, False, True, True]
        assert (sampler.tick, sampler.missed) == (7, 3)

    def test_are_abandoned_before_the_next_wait(self, sampler, clock):
        sampler.start()
        assert sampler.next_batch(10, lambda: sampler.tick == 4) is None
        assert (sampler.tick, clock.now()) == (4, pytest.approx(1000.4))
        assert sampler.next_batch(10, lambda: True) is None
