"""Recordings: only whole lines are written, a replay keeps their pace, and invalid ones are refused."""

import json
import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carico.cli import main
from carico.errors import CaricoError, InvalidRecording, RecordingEnded
from carico.telemetry.counters import telemetry_between
from carico.telemetry.procfs import ProcfsSource
from carico.telemetry.recording import Header, Recorder, ReplaySource, record
from carico.telemetry.sampler import Sampler
from carico.testing import FakeProc, ManualClock

HEADER = Header(schema_version=1, node="node-1", source="procfs", period_s=0.1)
HEADER_LINE = '{"schema_version":1,"node":"node-1","source":"procfs","period_s":0.1}\n'


def reading(at_s, /, **changes):
    values = {"at_s": at_s, "cpu_total": 400 * at_s, "cpu_idle": 100 * at_s, "cpu_pressure_us": 0}
    values |= {"memory_total": 100, "memory_free": 50, "memory_buffers": 0, "memory_cached": 0}
    return json.dumps(values | changes) + "\n"


@pytest.fixture
def clock():
    return ManualClock(now=50.0)


@pytest.fixture
def machine(tmp_path, clock):
    machine = FakeProc(tmp_path / "proc")
    clock.on_advance = machine.elapse
    return machine


@pytest.fixture
def file(tmp_path):
    return tmp_path / "recording.jsonl"


def recorded(machine, clock, file, duration_s):
    with ProcfsSource(machine.root, clock) as source, Recorder(file, HEADER) as recorder:
        record(source, clock, recorder, duration_s)


def test_a_replay_gives_the_same_telemetry_as_the_machine(machine, clock, file):
    machine.cpu_utilisation, machine.cpu_pressure, machine.io_pressure = 0.5, 0.25, 0.125
    recorded(machine, clock, file, 3.0)
    assert file.read_text().startswith(HEADER_LINE)
    assert len(file.read_text().splitlines()) == 1 + 31
    later = ManualClock(now=9000.0)
    with ReplaySource(file, later) as source:
        assert source.header == HEADER
        assert source.period_s == 0.1
        sampler = Sampler(source, later)
        sampler.start()
        samples = sampler.next_batch(30).samples
        with pytest.raises(RecordingEnded, match="after line 32"):
            sampler.next_batch(30)
    assert samples.at_s == pytest.approx([9000.05 + tick / 10 for tick in range(30)])
    assert samples.cpu_utilisation == pytest.approx([0.5] * 30)
    assert samples.cpu_pressure == pytest.approx([0.25] * 30, abs=1e-4)
    assert samples.io_pressure == pytest.approx([0.125] * 30, abs=1e-4)


def test_a_loop_of_the_recorded_period_gets_every_reading_once(clock, file):
    times = [10.0, 10.103, 10.197, 10.3001, 10.4, 10.46, 10.6]
    file.write_text(HEADER_LINE + "".join(map(reading, times)))
    with ReplaySource(file, clock) as source:
        sampler = Sampler(source, clock)
        seen = [sampler.start().at_s] + [sampler.next_reading().at_s for _ in times[1:]]
    assert seen == pytest.approx([time - 10.0 + 49.95 for time in times])


def test_a_replay_repeats_a_reading_until_the_next_is_due_and_skips_overdue_ones(clock, file):
    file.write_text(HEADER_LINE + "".join(reading(at) for at in range(1, 9)))
    with ReplaySource(file, clock) as source:
        first = source.read()
        clock.advance(0.5)
        assert source.read() is first
        clock.advance(5.0)
        latest = source.read()
        assert telemetry_between(first, latest).cpu_utilisation == pytest.approx(0.75)
        assert latest.at_s - first.at_s == 5.0


def test_an_existing_file_is_not_overwritten(machine, clock, file):
    file.write_text("precious")
    with pytest.raises(InvalidRecording, match="exists and is not overwritten: name another file"):
        Recorder(file, HEADER)
    assert file.read_text() == "precious"


def test_an_incomplete_last_line_is_left_out_with_a_warning(clock, file, caplog):
    file.write_text(HEADER_LINE + reading(1) + reading(2) + reading(3)[:-2])
    with ReplaySource(file, clock) as source:
        source.read()
        clock.advance(1.0)
        source.read()
        clock.advance(9.0)
        with pytest.raises(RecordingEnded):
            source.read()
    assert [message for message in caplog.messages if "line 4 is incomplete" in message]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("", 1, "a header is needed"),
        (HEADER_LINE[:-1], 1, "a header is needed"),
        (HEADER_LINE, 2, "a reading is needed"),
        (HEADER_LINE + "\n", 2, "not a reading"),
        (reading(1), 1, "not a header"),
        (HEADER_LINE.replace("1,", "2,", 1) + reading(1), 1, "schema_version"),
        (HEADER_LINE.replace("0.1", "0") + reading(1), 1, "period_s"),
        (HEADER_LINE + "{}\n", 2, "at_s"),
        (HEADER_LINE + reading(1, memory_free="50"), 2, "memory_free"),
        (HEADER_LINE + reading(1, memory_free=-1), 2, "memory_free"),
        (HEADER_LINE + reading(1, memory_total=0), 2, "memory_total"),
        (HEADER_LINE + reading(1, cpu_total=float("nan")), 2, "not a reading"),
        (HEADER_LINE + reading(1, cpu_total=1e300), 2, "cpu_total"),
        (HEADER_LINE + reading(1, more=1), 2, "more"),
        (HEADER_LINE + "[" * 4000 + "\n", 2, "not a reading"),
        (HEADER_LINE + " " * 5000 + reading(1), 2, "at most 4096 bytes"),
        (HEADER_LINE + reading(1) + reading(1), 3, "above that of the line before, 1.0"),
        (HEADER_LINE + reading(2) + reading(1), 3, "above that of the line before, 2.0"),
    ],
)
def test_an_invalid_recording_is_refused_with_the_line_number(clock, file, content, line, problem):
    file.write_text(content)

    def replay():
        with ReplaySource(file, clock) as source:
            source.read()
            clock.advance(10.0)
            source.read()

    with pytest.raises(InvalidRecording, match=rf"jsonl, line {line}: .*{problem}.*; record again"):
        replay()


def test_a_file_that_cannot_be_read(tmp_path, clock, file):
    for path in (file, tmp_path):
        with pytest.raises(InvalidRecording, match=r"cannot read the recording .*: (No such|Is a)"):
            ReplaySource(path, clock)
    file.write_text(HEADER_LINE + reading(1))
    source = ReplaySource(file, clock)
    source.close()
    source.close()
    with pytest.raises(InvalidRecording, match="closed"):
        source.read()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.dictionaries(
                st.sampled_from(sorted(json.loads(reading(1)))),
                st.one_of(st.floats(0, 1e19), st.floats(), st.integers(), st.text(max_size=3), st.none()),
            ).map(lambda changes: reading(5, **changes).encode()),
        ),
        max_size=5,
    )
)
def test_hostile_content_gives_telemetry_in_range_or_a_carico_error(tmp_path, lines):
    file, clock = tmp_path / "hostile.jsonl", ManualClock()
    file.write_bytes((HEADER_LINE + reading(1)).encode() + b"".join(lines))
    samples = []
    try:
        with ReplaySource(file, clock) as source:
            sampler = Sampler(source, clock, period_s=1e20)
            for _ in range(10):
                samples.append(sampler.next_batch(1).samples)
    except CaricoError:
        pass
    for sample in filter(None, samples):
        assert all(0 <= value <= 1 for name, value in vars(sample).items() if name != "at_s")


# The command

PROGRAM = (
    "import sys; from carico import cli; from carico.commands import record;"
    "from carico.testing import FakeProc, ManualClock; clock = ManualClock(); record.SystemClock = lambda: clock;"
    "clock.on_advance = FakeProc(sys.argv[-1]).elapse; sys.exit(cli.main())"
)
# Without bytecode files: the limit would truncate them, too.
SMALL_DISK = (
    "import resource, sys; sys.dont_write_bytecode = True; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000));"
)


def test_the_command_records_and_watch_replays(machine, clock, file, monkeypatch, capsys):
    monkeypatch.setattr("carico.commands.record.SystemClock", lambda: clock)
    monkeypatch.setattr("carico.commands.watch.SystemClock", lambda: clock)
    machine.cpu_utilisation = 0.5
    assert main(["record", "--out", str(file), "--duration", "3", "--proc", str(machine.root)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("carico record: procfs of ")
    assert main(["watch", "--json", "--replay", str(file)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["at_s"] for row in rows] == [1.0, 2.0, 3.0]
    assert [row["cpu_utilisation"] for row in rows] == [0.5] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["record", "--out", "/proc/self/status"], "exists and is not overwritten"),
        (["record", "--out", "new", "--proc", "nowhere"], "procfs is needed"),
        (["record", "--out", "new", "--source", "cgroup", "--cgroup", "nowhere"], "neither"),
        (["watch", "--replay", "nowhere"], "cannot read the recording"),
        (["watch", "--replay", "nowhere", "--pods-matching", "x"], "use --pods N"),
    ],
)
def test_an_error_is_one_line_and_creates_no_file(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("carico: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert list(tmp_path.iterdir()) == []


def test_without_msgspec_the_error_gives_the_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "carico.telemetry.recording")
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert main(["record", "--out", str(tmp_path / "file")]) == 4
    assert "this needs msgspec, which is not installed: pip install" in capsys.readouterr().err


def test_a_full_disk_leaves_whole_lines(machine, file):
    # A limit on the file's size behaves like a full disk: a part of the last line is written.
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK + PROGRAM, "record", "--out", file, "--proc", machine.root],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "carico: the output cannot be written: " in done.stderr
    content = file.read_text()
    assert 2500 < len(content) < 3000
    assert content.endswith("}\n")
    assert all(json.loads(line) for line in content.splitlines())


def test_ctrl_c_leaves_whole_lines(file):
    with subprocess.Popen(
        [sys.executable, "-m", "carico", "record", "--out", file], stderr=subprocess.PIPE, text=True
    ) as process:
        assert "carico record: procfs of " in process.stderr.readline()
        while not file.exists() or file.read_text().count("\n") < 3:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == ""
    content = file.read_text()
    assert content.endswith("}\n")
    assert all(json.loads(line) for line in content.splitlines())
