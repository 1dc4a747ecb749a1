"""Files of the kernel, and recordings of what was read from them."""

import itertools
import json
import math
import re
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from carico.errors import RecordingEnded, TelemetryError
from carico.podevents.process_table import MatchingProcesses
from carico.telemetry.cgroup import CgroupSource
from carico.telemetry.counters import disk_use_between, pod_use_between, telemetry_between
from carico.telemetry.pod_groups import PodGroups
from carico.telemetry.procfs import ProcfsSource
from carico.telemetry.recording import ReplaySource
from carico.testing import FakeProc, ManualClock
from tests.fuzz.target import Target
from tests.unit.carico.telemetry.cgroup_trees import TREES

FOLDER = Path(tempfile.mkdtemp())
PROC_FILES = ("stat", "meminfo", "pressure/cpu", "pressure/memory", "pressure/io", "diskstats")
CUT = b"\n---\n"
"""Separates the files of an input, which come in a fixed order; files that an input lacks are sound."""
MACHINE = FakeProc(FOLDER / "proc")


def write_over(path, content):
    """Write in place, as the kernel changes its files."""
    with path.open("r+b") as file:
        file.truncate()
        file.write(content)


def given(data, sound):
    """Return the contents of files: those of an input, and sound ones where the input has none."""
    parts = data.split(CUT)
    return {name: parts[at] if at < len(parts) else content for at, (name, content) in enumerate(sound.items())}


SOUND_PROC = {name: (MACHINE.root / name).read_bytes() for name in PROC_FILES}


def read_procfs(data):
    clock = ManualClock()
    with ProcfsSource(MACHINE.root, clock) as source:
        try:
            for name, content in given(data, SOUND_PROC).items():
                write_over(MACHINE.root / name, content)
            first = source.read()
            clock.advance(0.1)
            return first, source.read(), source.cpus()
        finally:
            for name, content in SOUND_PROC.items():
                write_over(MACHINE.root / name, content)


def counters_are_sound(read):
    first, second, cpus = read
    assert 0 < cpus < math.inf
    for counters in (first, second):
        assert all(math.isfinite(float(value)) and value >= 0 for value in vars(counters).values())
    telemetry = telemetry_between(first, second)
    assert all(0 <= float(value) <= 1 for value in vars(telemetry).values())
    assert disk_use_between(first, second) in (None, (0.0, 0.0)), "the files do not change between two readings"


def read_tree(hierarchy, data):
    root, sound = FOLDER / hierarchy, {name: text.encode() for name, text in TREES[hierarchy].items()}
    for name, content in given(data, sound).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    clock = ManualClock()
    with CgroupSource(root, proc=MACHINE.root, clock=clock) as source:
        assert source.hierarchy == hierarchy
        first = source.read()
        clock.advance(0.1)
        return first, source.read(), source.cpus()


POD = "0f3f1f6e-2c5c-4a43-9d5e-0a2b6f8e7c11"
SOUND_POD = {name: TREES["v2"][name].encode() for name in ("cpu.stat", "cpu.pressure", "memory.current", "memory.stat")}


def read_pod(data):
    """Two readings of a pod: one of an input's files, and one of sound files."""
    group, clock = FOLDER / "pods" / "kubepods" / f"pod{POD}", ManualClock()
    group.mkdir(parents=True, exist_ok=True)
    (group.parent / "cgroup.controllers").write_bytes(b"cpu memory\n")
    groups, readings = PodGroups(FOLDER / "pods", clock), []
    for files in (given(data, SOUND_POD), SOUND_POD):
        for name, content in files.items():
            (group / name).write_bytes(content)
        readings.append(groups.read([POD]).get(POD))
        clock.advance(10.0)
    return readings


def pods_are_sound(readings):
    found = [counters for counters in readings if counters is not None]
    assert readings[1] is not None, "one malformed reading does not lose a pod"
    assert all(0 <= value <= 2**53 for counters in found for value in counters)
    if len(found) == 2 and (use := pod_use_between(*found)):
        assert use.cores >= 0
        assert 0 <= use.waiting <= 1


def read_recording(data):
    path = FOLDER / "recording.jsonl"
    path.write_bytes(data)
    clock, found = ManualClock(1.0), []
    with ReplaySource(path, clock) as source, suppress(RecordingEnded):
        for _ in range(50):
            found.append(source.read())
            clock.advance(source.period_s)
    return found


def readings_are_in_order(found):
    for first, second in itertools.pairwise(found):
        assert second.at_s >= first.at_s


def read_processes(data):
    """A procfs with a process for every line, ``PID COMMAND``."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        root = Path(folder)
        root.joinpath("self").mkdir()
        root.joinpath("self", "status").write_bytes(b"Name:\tpython\nPid:\t1\nPPid:\t0\n")
        for line in data.split(b"\n")[:8]:
            name, _, command = line.partition(b" ")
            name = name.decode("utf-8", "surrogateescape")[:40]
            if name and "/" not in name and "\0" not in name and name not in (".", "..", "self"):
                root.joinpath(name).mkdir(exist_ok=True)
                root.joinpath(name, "cmdline").write_bytes(command)
        return MatchingProcesses(re.compile("pi"), root).running()


def processes_are_sound(running):
    assert all(pid >= 0 and pid != 1 for pid in running)


HEADER = {"schema_version": 1, "node": "node-1", "source": "procfs", "period_s": 0.1}
READING = {
    "at_s": 1.0,
    "cpu_total": 100.0,
    "cpu_idle": 50.0,
    "cpu_pressure_us": 3.0,
    "memory_total": 1e9,
    "memory_free": 5e8,
    "memory_buffers": 0.0,
    "memory_cached": 0.0,
    "disk_reading_ms": 5.0,
    "disk_read_work": 7.0,
}
RECORDING = b"".join(
    json.dumps(line).encode() + b"\n" for line in (HEADER, READING, READING | {"at_s": 1.1, "io_pressure_us": 4.0})
)
TARGETS = [
    Target(
        "telemetry.procfs",
        "/proc/stat, meminfo, pressure and diskstats",
        read_procfs,
        (TelemetryError,),
        counters_are_sound,
        (CUT.join(SOUND_PROC.values()), *SOUND_PROC.values()),
    ),
    *(
        Target(
            f"telemetry.cgroup_{hierarchy}",
            f"the files of a control group ({hierarchy})",
            partial(read_tree, hierarchy),
            (TelemetryError,),
            counters_are_sound,
            (CUT.join(text.encode() for text in TREES[hierarchy].values()),),
        )
        for hierarchy in TREES
    ),
    Target(
        "telemetry.pod_groups",
        "the files of a pod's control group",
        read_pod,
        holds=pods_are_sound,
        seeds=(CUT.join(SOUND_POD.values()), *SOUND_POD.values()),
    ),
    Target(
        "telemetry.recording",
        "a recording",
        read_recording,
        (TelemetryError,),
        readings_are_in_order,
        (RECORDING, RECORDING[:-20]),
        form="lines",
    ),
    Target(
        "telemetry.processes",
        "processes that stand for pods",
        read_processes,
        (TelemetryError,),
        processes_are_sound,
        (b"7 pi\x002000\n8 other\n1 pi", b"12 \nself pi"),
        longest=500,
    ),
]
