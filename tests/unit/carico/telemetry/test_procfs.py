"""The procfs source: the counters it reads, and its errors when files are missing or malformed."""

import errno
import itertools
import os
from pathlib import Path

import pytest

from carico.errors import PressureDisabled, TelemetryFileMissing, TelemetryMalformed
from carico.telemetry.counters import telemetry_between
from carico.telemetry.procfs import ProcfsSource
from carico.testing import FakeProc, ManualClock

# Recorded on a machine that runs a virtual machine, so that guest time is not zero.
STAT = "cpu  1000 20 300 50000 600 0 70 8 900 10\ncpu0 1000 20 300 50000 600 0 70 8 900 10\nintr 1 2 3\n"
MEMINFO = """\
MemTotal:       24684084 kB
MemFree:        24018896 kB
MemAvailable:   24208068 kB
Buffers:           14564 kB
Cached:           353300 kB
SwapCached:         4711 kB
"""
PRESSURE = "some avg10=1.12 avg60=0.35 avg300=0.08 total=2059391\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=77\n"


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def machine(tmp_path):
    return FakeProc(tmp_path)


@pytest.fixture
def recorded(machine):
    machine.write("stat", STAT)
    machine.write("meminfo", MEMINFO)
    machine.write("pressure/cpu", PRESSURE)
    machine.write("pressure/memory", PRESSURE.replace("2059391", "31"))
    machine.write("pressure/io", PRESSURE.replace("2059391", "41"))
    return machine


def test_reads_the_fields_of_the_thesis(recorded):
    with ProcfsSource(recorded.root, ManualClock(12.5)) as source:
        counters = source.read()
    assert counters.at_s == 12.5
    # Guest time (900 and 10) is part of user and nice and not added again.
    assert counters.cpu_total == 1000 + 20 + 300 + 50000 + 600 + 0 + 70 + 8
    assert counters.cpu_idle == 50000 + 600
    assert counters.cpu_stolen == 8
    assert counters.cpu_pressure_us == 2059391
    assert counters.memory_pressure_us == 31
    assert counters.io_pressure_us == 41
    assert counters.memory_total == 24684084 * 1024
    assert counters.memory_free == 24018896 * 1024
    assert counters.memory_buffers == 14564 * 1024
    assert counters.memory_cached == 353300 * 1024  # without SwapCached


def test_every_reading_has_the_present_values(machine):
    clock = ManualClock()
    clock.on_advance = machine.elapse
    with ProcfsSource(machine.root, clock) as source:
        previous = source.read()
        for utilisation, pressure, memory in [(0.25, 0.0, 0.5), (1.0, 0.75, 0.25)]:
            machine.cpu_utilisation, machine.cpu_pressure, machine.memory_utilisation = utilisation, pressure, memory
            clock.advance(2.0)
            current = source.read()
            telemetry = telemetry_between(previous, current)
            assert telemetry.cpu_utilisation == pytest.approx(utilisation)
            assert telemetry.cpu_pressure == pytest.approx(pressure)
            assert telemetry.memory_utilisation == pytest.approx(memory)
            previous = current


def test_only_thorough_captures_read_the_pressure_of_memory_and_io(machine):
    clock = ManualClock()
    clock.on_advance = machine.elapse
    machine.cpu_pressure, machine.memory_pressure, machine.io_pressure = 0.75, 0.5, 0.25
    captures = []
    with ProcfsSource(machine.root, clock) as source:
        for tick in range(21):
            captures.append(source.capture(thorough=tick % 10 == 0))
            clock.advance(0.1)
    readings = [capture() for capture in captures]
    samples = [telemetry_between(before, after) for before, after in itertools.pairwise(readings)]
    assert [sample.cpu_pressure for sample in samples] == pytest.approx([0.75] * 20)
    assert [bool(sample.memory_pressure) for sample in samples] == 2 * (9 * [False] + [True])
    for second in (0, 10):
        whole = telemetry_between(readings[second], readings[second + 10])
        assert (whole.memory_pressure, whole.io_pressure) == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize("file", ["stat", "meminfo", "pressure/cpu", "pressure/memory", "pressure/io"])
def test_the_next_thorough_capture_notices_a_vanished_file(machine, file):
    with ProcfsSource(machine.root) as source:
        source.capture()
        machine.remove(file)
        source.capture(thorough=False)
        with pytest.raises(TelemetryFileMissing, match="removed or replaced"):
            source.capture()


def test_this_machine_can_be_read_and_leaves_nothing_open():
    before = descriptors()
    with ProcfsSource() as source:
        first, second = source.read(), source.read()
        assert descriptors() == before + 6
    assert descriptors() == before
    assert 0 < first.cpu_idle <= first.cpu_total <= second.cpu_total
    assert first.cpu_pressure_us <= second.cpu_pressure_us
    assert 0 <= first.memory_pressure_us <= second.memory_pressure_us
    assert 0 <= first.io_pressure_us <= second.io_pressure_us
    assert first.memory_free + first.memory_buffers + first.memory_cached <= first.memory_total
    assert first.at_s < second.at_s


def test_a_closed_source_reads_nothing_and_may_be_closed_again(machine):
    source = ProcfsSource(machine.root)
    source.close()
    source.close()
    with pytest.raises(TelemetryFileMissing):
        source.read()


def test_a_link_is_no_file_of_the_kernel(machine, tmp_path):
    (machine.root / "meminfo").rename(tmp_path / "elsewhere")
    (machine.root / "meminfo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TelemetryFileMissing, match=r"meminfo cannot be read .*symbolic links"):
        ProcfsSource(machine.root)


@pytest.mark.parametrize("file", ["stat", "meminfo"])
def test_a_missing_file_is_named_and_no_file_stays_open(machine, file):
    machine.remove(file)
    before = descriptors()
    with pytest.raises(TelemetryFileMissing, match=f"/{file} cannot be read .*procfs is needed"):
        ProcfsSource(machine.root)
    assert descriptors() == before


def test_a_folder_that_is_not_procfs_is_refused(tmp_path):
    with pytest.raises(TelemetryFileMissing, match="check the root folder"):
        ProcfsSource(tmp_path / "nowhere")


def test_without_pressure_the_error_gives_the_remedy_and_no_file_stays_open(machine):
    machine.remove("pressure/cpu")
    before = descriptors()
    with pytest.raises(PressureDisabled, match=r"psi=1.*CONFIG_PSI"):
        ProcfsSource(machine.root)
    assert descriptors() == before


def failing(monkeypatch, call, path, number):
    """Let a system call fail for one file only."""
    real = getattr(os, call)

    def fake(file, *rest):
        seen = file if call == "open" else Path(f"/proc/self/fd/{file}").readlink()
        if Path(seen) == path:
            raise OSError(number, os.strerror(number))
        return real(file, *rest)

    monkeypatch.setattr(os, call, fake)


@pytest.mark.parametrize("call", ["open", "pread"])
def test_pressure_switched_off_at_boot_is_refused(machine, monkeypatch, call):
    failing(monkeypatch, call, machine.root / "pressure/cpu", errno.EOPNOTSUPP)
    with pytest.raises(PressureDisabled, match="psi=1"), ProcfsSource(machine.root) as source:
        source.read()


@pytest.mark.parametrize("what", ["memory", "io"])
@pytest.mark.parametrize("call", ["remove", "open", "pread"])
def test_pressure_of_memory_or_io_is_zero_where_the_kernel_lacks_it(machine, monkeypatch, what, call):
    machine.memory_pressure = machine.io_pressure = 0.5
    machine.elapse(2.0)
    if call == "remove":
        machine.remove(f"pressure/{what}")
    else:
        failing(monkeypatch, call, machine.root / "pressure" / what, errno.EOPNOTSUPP)
    before = descriptors()
    with ProcfsSource(machine.root) as source:
        counters = source.read()
    assert descriptors() == before
    known = {"memory": counters.memory_pressure_us, "io": counters.io_pressure_us}
    assert known.pop(what) == 0
    assert list(known.values()) == [1_000_000]


FILES = ["stat", "meminfo", "pressure/cpu", "pressure/memory", "pressure/io"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("number", [errno.ESRCH, errno.ENODEV, errno.EIO, errno.EACCES])
def test_a_file_that_can_no_longer_be_read_is_an_error(machine, monkeypatch, file, number):
    with ProcfsSource(machine.root) as source:
        source.read()
        failing(monkeypatch, "pread", machine.root / file, number)
        with pytest.raises(TelemetryFileMissing, match=os.strerror(number)):
            source.read()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("replaced", [False, True])
def test_a_vanished_or_replaced_file_is_an_error(machine, file, replaced):
    with ProcfsSource(machine.root) as source:
        source.read()
        machine.remove(file)
        if replaced:
            machine.write(file, "something else\n")
        with pytest.raises(TelemetryFileMissing, match="removed or replaced"):
            source.read()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("stat", ""),
        ("stat", "\n"),
        ("stat", "cpu\n"),
        ("stat", "cpu  1 2 3 4 5 6 7\n"),  # no steal: older than Linux 2.6.11
        ("stat", "cpu  1 2 3 four 5 6 7 8\n"),
        ("stat", "cpu  1 2 3 -4 5 6 7 8\n"),
        ("stat", "cpu0  1 2 3 4 5 6 7 8\n"),
        ("meminfo", ""),
        ("meminfo", "MemTotal: 100 kB\nMemFree: 50 kB\nBuffers: 1 kB\nSwapCached: 2 kB\n"),
        ("meminfo", "MemTotal: 100 kB\nMemFree: fifty kB\nBuffers: 1 kB\nCached: 2 kB\n"),
        ("meminfo", "MemTotal: 100 MB\nMemFree: 50 MB\nBuffers: 1 MB\nCached: 2 MB\n"),
        ("meminfo", "MemTotal: 0 kB\nMemFree: 0 kB\nBuffers: 0 kB\nCached: 0 kB\n"),
        ("pressure/cpu", ""),
        ("pressure/cpu", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
        ("pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
        ("pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=-7\n"),
        ("pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=205"),  # cut off: 205 of 2059391
        ("pressure/cpu", "\xff\xfe\n"),
        ("pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00\n"),
        ("pressure/io", ""),
    ],
)
def test_garbage_is_refused_and_quoted(machine, file, content):
    with ProcfsSource(machine.root) as source:
        machine.write(file, content)
        with pytest.raises(TelemetryMalformed, match=rf"{file} must hold .*, it holds '.*': check"):
            source.read()
