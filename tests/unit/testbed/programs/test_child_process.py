"""Programs that belong to a process: they end with it, and errors include the end of their log."""

import os
import subprocess
import sys

import pytest

from testbed.errors import ClusterError
from testbed.programs.child_process import ChildProcess
from testbed.programs.launcher import LAUNCHER

from .processes import is_alive, wait_for, wait_until_ended

SLEEPER = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"]
STUBBORN = [
    *(sys.executable, "-c"),
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)",
]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "program.log"


@pytest.mark.parametrize("end", [ChildProcess.end, ChildProcess.kill])
def test_it_runs_until_it_is_ended(log, end):
    program = ChildProcess(SLEEPER, log)
    wait_for(log, "ready")
    program.require_alive()
    assert is_alive(program.pid)
    end(program)
    assert not is_alive(program.pid)
    program.end()


def test_a_program_that_ignores_sigterm_is_killed(log, monkeypatch):
    monkeypatch.setattr("testbed.programs.child_process._END_TIMEOUT_S", 0.1)
    program = ChildProcess(STUBBORN, log)
    wait_for(log, "ready")
    program.end()
    assert not is_alive(program.pid)


def test_a_program_ends_with_a_killed_process(log):
    starter = (
        f"import time; from pathlib import Path; from testbed.programs.child_process import ChildProcess\n"
        f"print(ChildProcess({SLEEPER!r}, Path({str(log)!r})).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        wait_for(log, "ready")
        assert is_alive(pid)
        process.kill()
    wait_until_ended(pid)


def test_a_program_of_an_ended_process_is_not_run():
    done = subprocess.run([*LAUNCHER, str(os.getpid() + 1), "true"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "true is not run: the process that started it has ended\n")


def test_an_error_includes_the_end_of_the_log(log):
    program = ChildProcess([sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"], log)
    wait_for(log, "no such thing")
    program.end()
    with pytest.raises(ClusterError, match=r"ended with (3|-15); the end of program.log:\nno such thing"):
        program.require_alive()


def test_a_missing_program_is_an_error(log):
    program = ChildProcess(["/nowhere/kube-scheduler"], log)
    wait_for(log, "kube-scheduler cannot be run: No such file or directory")
    program.end()


def test_a_log_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(ClusterError, match="cannot be run with the log"):
        ChildProcess(SLEEPER, tmp_path / "nowhere" / "program.log")
