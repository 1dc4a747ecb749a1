"""Processes that stand for pods."""

import os
import re
import subprocess
import sys

import pytest

from carico.errors import PodEventsError, TelemetryFileMissing
from carico.podevents import processes
from carico.podevents.process_table import MatchingProcesses
from carico.podevents.processes import ProcessEvents
from carico.podevents.source import PodChange
from carico.testing import FakeProc, ManualClock

WORKLOAD = re.compile(r"workloads\.pi")


@pytest.fixture
def machine(tmp_path):
    return FakeProc(tmp_path)


def test_arguments_are_joined_by_blanks_and_searched(machine):
    machine.start_process(10, "python", "-m", "workloads.pi", "2000")
    machine.start_process(11, "/usr/bin/python", "-m", "workloads.pi", "2000")
    machine.start_process(12, "python", "-m", "workloads.web")
    assert MatchingProcesses(WORKLOAD, machine.root).count() == 2
    assert MatchingProcesses(re.compile("^python -m workloads"), machine.root).count() == 2
    assert MatchingProcesses(re.compile("2000$"), machine.root).count() == 2


def test_the_watcher_and_what_started_it_do_not_count(machine):
    machine.start_process(1, "init", parent=0)
    machine.start_process(20, "sh", "-c", "carico watch --pods-matching workloads.pi")
    machine.start_process(21, "timeout", "9", "carico", "watch", "--pods-matching", "workloads.pi", parent=20)
    machine.start_process(22, "carico", "watch", "--pods-matching", "workloads.pi", parent=21, is_self=True)
    machine.start_process(23, "python", "-m", "workloads.pi", "2000", parent=20)
    assert MatchingProcesses(WORKLOAD, machine.root).count() == 1


def test_a_process_without_a_command_line_never_counts(machine):
    machine.start_process(2)
    machine.start_process(30, "job")
    assert MatchingProcesses(re.compile(""), machine.root).count() == 1


def test_a_process_that_vanishes_while_it_is_looked_at(machine):
    machine.start_process(10, "python", "-m", "workloads.pi")
    machine.start_process(11, "python", "-m", "workloads.pi")
    (machine.root / "11" / "cmdline").unlink()
    assert MatchingProcesses(WORKLOAD, machine.root).count() == 1
    machine.end_process(10)
    assert MatchingProcesses(WORKLOAD, machine.root).count() == 0


def test_a_command_line_that_is_not_text(machine):
    machine.start_process(10, "workloads.pi")
    (machine.root / "10" / "cmdline").write_bytes(b"\xff\xfe\0workloads.pi\0")
    assert MatchingProcesses(WORKLOAD, machine.root).count() == 1


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(TelemetryFileMissing, match=r"nowhere cannot be listed .*procfs is needed"):
        MatchingProcesses(WORKLOAD, tmp_path / "nowhere").count()


def test_on_this_machine():
    name = f"stands-for-a-pod-{os.getpid()}"
    matching = MatchingProcesses(re.compile(name))
    assert matching.count() == 0
    script = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert matching.count() == 1
        process.stdin.close()
    assert matching.count() == 0


def test_on_this_machine_the_watcher_does_not_count_itself():
    program = (
        "import re; from carico.podevents.process_table import MatchingProcesses; "
        f"print(MatchingProcesses(re.compile('unlikely-{os.getpid()}')).count())"
    )
    # The shell has the pattern in its command line as well; the second command keeps it from giving way to Python.
    shell = ["sh", "-c", f'"{sys.executable}" -c "{program}"; true']
    assert subprocess.run(shell, capture_output=True, text=True, check=True).stdout == "0\n"


def test_the_source_tells_the_processes_by_their_ids(machine, told, monkeypatch):
    monkeypatch.setattr(processes, "LOOK_EVERY_S", 0.01)
    for pid in (10, 11):
        machine.start_process(pid, "python", "-m", "workloads.pi")
    source = ProcessEvents(MatchingProcesses(WORKLOAD, machine.root), ManualClock(4.0))
    source.start(told)
    assert told.so_far() == 2
    assert told.changes == [PodChange(+1, 4.0, "10"), PodChange(+1, 4.0, "11")]
    machine.end_process(10)
    assert told.wait_for(1) == [PodChange(-1, 4.0, "10")]
    machine.start_process(12, "python", "-m", "workloads.pi")
    assert told.wait_for(2) == [PodChange(+1, 4.0, "12")]
    source.close()


def test_the_source_does_not_start_without_a_procfs(tmp_path, told):
    source = ProcessEvents(MatchingProcesses(WORKLOAD, tmp_path / "nowhere"))
    with pytest.raises(PodEventsError, match="procfs is needed"):
        source.start(told)
    source.close()
