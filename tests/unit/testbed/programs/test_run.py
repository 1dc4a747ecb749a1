"""Programs that make clusters: errors include their last lines, and they have a deadline."""

import os
import signal
import subprocess
import sys
import time

import pytest

from testbed.errors import ClusterError
from testbed.programs.run import run_program
from testbed.real.kind.pytest_kind_cluster import kind_of_ours

from .processes import is_alive, wait_for, wait_until_ended


def python(text):
    return [sys.executable, "-c", text]


def test_the_output_is_returned(tmp_path):
    said = run_program(python("import os; print(os.environ['TRIED'], os.getcwd())"), 10, {"TRIED": "so"}, tmp_path)
    assert said.split() == ["so", str(tmp_path)]


def test_an_error_includes_the_last_lines():
    with pytest.raises(ClusterError, match=r"ended with 3:\n85\n(?s:.*)\n99$"):
        run_program(python("import sys; [print(i) for i in range(100)]; sys.exit(3)"), 10)


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path):
    """kind starts docker, which would run on."""
    alive = tmp_path / "alive"
    parent = ["sh", "-c", 'sh -c "sleep 0.5; touch $0" "$0" & wait', str(alive)]
    began = time.monotonic()
    with pytest.raises(ClusterError, match="was not done after 0 s"):
        run_program(parent, 0.2)
    assert time.monotonic() - began < 5
    time.sleep(0.4)
    assert not alive.exists()


def started_pid(note):
    wait_for(note, "\n")
    return int(note.read_text())


@pytest.mark.parametrize("through_pytest_kind", [False, True])
def test_a_program_ends_with_a_killed_process(tmp_path, through_pytest_kind):
    """Otherwise the program would go on making a cluster that no process knows."""
    note = tmp_path / "pid"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {note}\nexec sleep 60\n")
    program.chmod(0o700)
    command = [str(program)]
    if through_pytest_kind:  # a process of its own starts kind
        own = kind_of_ours(program, tmp_path / "own")
        command = python(f"import subprocess; subprocess.run([{str(own)!r}])")
    starter = python(f"from testbed.programs.run import run_program; run_program({command!r}, 60)")
    with subprocess.Popen(starter) as process:
        pid = started_pid(note)
        assert is_alive(pid)
        process.kill()
    wait_until_ended(pid)


def test_processes_that_a_program_leaves_on_purpose_stay(tmp_path):
    """kwokctl starts a control plane and ends."""
    note = tmp_path / "pid"
    run_program(["sh", "-c", 'setsid sh -c "echo \\$\\$ > $0; exec sleep 60" > "$0.log" 2>&1 &', str(note)], 10)
    pid = started_pid(note)
    try:
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_the_wrapper_of_kind_keeps_a_half_made_cluster(tmp_path):
    kind = tmp_path / "kind of mine"
    kind.write_text('#!/bin/sh\necho "$*"\n')
    kind.chmod(0o700)
    own = kind_of_ours(kind, tmp_path / "own")
    assert run_program([own, "create", "cluster"], 10) == "create cluster --retain\n"
    assert run_program([own, "get", "clusters"], 10) == "get clusters\n"


def test_a_missing_program_is_an_error(tmp_path):
    with pytest.raises(ClusterError, match=r"none create cluster ended with 1:\n.*none cannot be run: No such file"):
        run_program([tmp_path / "none", "create", "cluster"], 10)
