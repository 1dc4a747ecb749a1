"""The loop of `carico watch` under a clock moved by hand, and how its rows are shown."""

import io
import json
import math
import statistics
from itertools import pairwise

import numpy as np
import pytest

from carico.agent.watch import Row, Watch, show
from carico.errors import CounterWentBackwards, TelemetryFileMissing
from carico.telemetry.procfs import ProcfsSource
from carico.testing import FakeProc, ManualClock

ROW = Row(
    at_s=1.0,
    cpu_utilisation=0.5,
    cpu_pressure=0.25,
    memory_utilisation=0.125,
    pods=3,
    capacity_signal=1.5,
    pod_capacity=2.75,
)
TITLE = "carico watch: 3 pods"


class Bench:
    """A fake machine, its clock, and what was read of it when."""

    def __init__(self, folder):
        self.machine = FakeProc(folder)
        self.clock = ManualClock(now=1000.0)
        self.clock.on_advance = self.machine.elapse
        self.source = ProcfsSource(self.machine.root, self.clock)
        self.read_at = []
        self.pods = 0
        self.counted = 0
        self.late_s = 0.0
        """By how much the next reading is late."""
        self.watch = Watch(self, self.clock, self.count_pods)

    def read(self):
        late_s, self.late_s = self.late_s, 0.0
        self.clock.advance(late_s)
        self.read_at.append(self.clock.now())
        return self.source.read()

    def count_pods(self):
        self.counted += 1
        return self.pods

    def load(self, utilisation, pressure=0.0, pods=0):
        self.machine.cpu_utilisation, self.machine.cpu_pressure, self.pods = utilisation, pressure, pods


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    with bench.source:
        yield bench


def test_ten_samples_and_one_row_a_second(bench):
    rows = list(bench.watch.rows(5.0))
    assert [row.at_s for row in rows] == pytest.approx([1, 2, 3, 4, 5])
    assert [later - earlier for earlier, later in pairwise(bench.read_at)] == pytest.approx([0.1] * 50)
    assert bench.counted == 6  # at the start and with every row, not with every sample


@pytest.mark.parametrize(("duration_s", "rows"), [(1.0, 1), (2.9, 2), (3.0, 3)])
def test_as_many_rows_as_whole_seconds(bench, duration_s, rows):
    assert len(list(bench.watch.rows(duration_s))) == rows


def test_a_row_tells_of_its_second(bench):
    rows = bench.watch.rows()
    bench.machine.memory_utilisation = 0.4
    for utilisation, pressure in [(0.1, 0.0), (1.0, 0.5), (0.7, 0.2)]:
        bench.load(utilisation, pressure)
        row = next(rows)
        assert row.cpu_utilisation == pytest.approx(utilisation, abs=0.01)
        assert row.cpu_pressure == pytest.approx(pressure, abs=0.01)
        assert row.memory_utilisation == pytest.approx(0.4)


def test_the_signal_falls_under_load_and_recovers(bench):
    rows = bench.watch.rows()

    def signals(utilisation, pressure, seconds):
        bench.load(utilisation, pressure)
        return [next(rows).capacity_signal for _ in range(seconds)]

    idle = signals(0.02, 0.0, 10)
    busy = signals(1.0, 0.5, 10)
    after = signals(0.02, 0.0, 10)
    assert statistics.median(busy) < statistics.median(idle) / 2
    assert statistics.median(after) > 2 * statistics.median(busy)


def test_the_cost_of_a_pod_is_learned_from_those_that_run(bench):
    rows = bench.watch.rows()
    for pods in [0] * 10 + [4] * 60:
        bench.load(0.02 + 0.125 * pods, pods=pods)
        row = next(rows)
    # Usage is half the utilisation: sixteen such pods fill the CPUs and their queue, four run.
    assert row.pods == 4
    assert row.pod_capacity == pytest.approx(11.5, abs=1.0)


def test_after_a_change_of_pods_the_model_holds_off_for_one_row(bench):
    rows = bench.watch.rows()
    for _ in range(10):
        before = next(rows)
    bench.load(1.0, 0.5, pods=1)
    held_off, learned = next(rows), next(rows)
    # During hold-off the signal, which has fallen, is not asked: one pod more is one place less.
    assert held_off.capacity_signal < before.capacity_signal / 2
    assert held_off.pod_capacity == pytest.approx(before.pod_capacity - 1, abs=0.1)
    assert learned.pod_capacity < held_off.pod_capacity


def test_a_late_sample_delays_none_and_is_not_caught_up(bench):
    rows = bench.watch.rows(3.0)
    next(rows)
    bench.clock.advance(0.35)  # whoever takes the row takes his time
    assert [row.at_s for row in rows] == pytest.approx([2, 3])
    assert bench.read_at[10:13] == pytest.approx([1001.0, 1001.4, 1001.5])


def test_a_sample_within_the_same_jiffy_is_no_idle_machine(bench):
    bench.load(1.0)
    rows, usages = bench.watch.rows(2.0), []
    observe = bench.watch.model.observe
    bench.watch.model.observe = lambda usage, at: (usages.append(usage[0]), observe(usage, at=at))
    next(rows)
    bench.late_s = 0.0995  # so that the sample after the next one is due half a millisecond later
    next(rows)
    assert min(np.diff(bench.read_at)) == pytest.approx(0.0005)
    assert usages == pytest.approx([0.5] * 19)


def test_after_a_long_stop_there_is_one_row_for_all_of_it(bench):
    rows = bench.watch.rows(7.0)
    next(rows)
    bench.clock.advance(3.25)
    assert [row.at_s for row in rows] == pytest.approx([4.3, 5, 6, 7])


def test_a_stop_beyond_the_end_does_not_lose_the_last_row(bench):
    rows = bench.watch.rows(2.0)
    next(rows)
    bench.clock.advance(60.0)
    assert [row.at_s for row in rows] == pytest.approx([61.1])


def test_a_file_that_vanishes_ends_the_watch_with_an_error(bench):
    rows = bench.watch.rows()
    next(rows)
    bench.machine.remove("meminfo")
    with pytest.raises(TelemetryFileMissing, match="meminfo"):
        next(rows)


def test_a_restarted_machine_ends_the_watch_with_an_error(bench):
    rows = bench.watch.rows()
    next(rows)
    bench.machine.write("stat", "cpu  0 0 0 0 0 0 0 0 0 0\n")
    bench.clock.on_advance = lambda seconds: None
    with pytest.raises(CounterWentBackwards, match="restarted"):
        next(rows)


class Terminal(io.StringIO):
    """A stream that says it is a terminal and counts what reached the screen."""

    def __init__(self, tty=True):
        super().__init__()
        self.tty = tty
        self.flushed = []

    def isatty(self):
        return self.tty

    def flush(self):
        self.flushed.append(self.getvalue())


def test_json_lines_have_the_fields_and_null_for_what_is_no_number(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    unknown = Row(2.0, 0.0, 0.0, 0.0, pods=0, capacity_signal=math.inf, pod_capacity=math.nan)
    show([ROW, unknown], stream, TITLE, as_json=True)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first == {
        "at_s": 1.0,
        "cpu_utilisation": 0.5,
        "cpu_pressure": 0.25,
        "memory_utilisation": 0.125,
        "pods": 3,
        "capacity_signal": 1.5,
        "pod_capacity": 2.75,
    }
    assert second["capacity_signal"] is None
    assert second["pod_capacity"] is None


@pytest.mark.parametrize("as_json", [True, False])
def test_every_line_is_seen_at_once_and_whole(as_json):
    stream = Terminal(tty=False)
    show([ROW, ROW], stream, TITLE, as_json)
    assert len(stream.flushed) == (2 if as_json else 3)  # with the header
    assert all(seen.endswith("\n") for seen in stream.flushed)


@pytest.mark.parametrize(("tty", "term"), [(False, "xterm"), (True, "dumb")])
def test_plain_lines_where_nothing_can_be_rewritten(monkeypatch, tty, term):
    monkeypatch.setenv("TERM", term)
    stream = Terminal(tty)
    show([ROW, ROW], stream, TITLE)
    title, header, *lines = stream.getvalue().splitlines()
    assert title == TITLE
    assert header.split() == ["seconds", "CPU", "pressure", "memory", "pods", "signal", "Pod-Capacity"]
    assert [line.split() for line in lines] == [["1.0", "50.0%", "25.0%", "12.5%", "3", "1.50", "2.75"]] * 2
    assert len({len(line) for line in [header, *lines]}) == 1
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_the_display_is_rewritten_in_place(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")
    stream = Terminal()
    full = Row(2.0, 1.0, 1.0, 1.0, pods=3, capacity_signal=0.0, pod_capacity=0.0)
    show([ROW, full], stream, TITLE)
    first, second = stream.flushed[0], stream.flushed[1].removeprefix(stream.flushed[0])
    assert "\x1b[6F" not in first
    assert first.count("\n") == 6
    assert second.startswith("\x1b[6F")
    assert "50.0%  [##########----------]" in first
    assert "[###oo---------------]" in first
    assert "  0.00  [--------------------]  of 1.50" in second
    assert "[###-----------------]" in second


@pytest.mark.parametrize("signal", [0.0, math.inf])
def test_a_terminal_shows_a_signal_that_has_no_scale(monkeypatch, signal):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    show([Row(1.0, 0.0, 0.0, 0.0, pods=0, capacity_signal=signal, pod_capacity=200.0)], stream, TITLE)
    assert f"{signal:7.2f}" in stream.getvalue()


def test_no_line_is_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    show([ROW], stream, TITLE * 5)
    assert max(len(line.removesuffix("\x1b[K")) for line in stream.getvalue().splitlines()) == 39


def test_an_error_instead_of_the_first_row_leaves_nothing_shown(bench, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    bench.machine.write("stat", "garbage\n")
    bench.clock.on_advance = lambda seconds: None
    for tty in (True, False):
        stream = Terminal(tty)
        with pytest.raises(Exception, match="garbage"):
            show(bench.watch.rows(), stream, TITLE)
        assert stream.getvalue() == ""
