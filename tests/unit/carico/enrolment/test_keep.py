"""The light process that runs `carico enrol` when it is due; commands of the test stand for `carico enrol`."""

import random
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from carico.enrolment.__main__ import keep


class Stopped(Exception):
    pass


class Sleeper:
    """Sleeps not at all, and stops after some sleeps."""

    def __init__(self, times):
        self.slept, self.times = [], times

    def __call__(self, seconds):
        self.slept.append(seconds)
        if len(self.slept) == self.times:
            raise Stopped


def slept(program, times):
    sleep = Sleeper(times)
    with pytest.raises(Stopped):
        keep([sys.executable, "-c", program], random.Random(1), sleep)
    return sleep.slept


def test_after_a_failure_it_waits_longer_and_longer_and_says_why(caplog):
    waits = slept("import sys; sys.exit('no signer')", 12)
    assert waits[0] <= 2
    assert max(waits) <= 300
    assert waits[-1] >= 150
    assert "no new certificate: no signer" in caplog.text


@pytest.mark.parametrize(
    "program", ["pass", "print('soon')", "print('due at 2030-01-01T00:00:00')"], ids=["nothing", "no time", "no zone"]
)
def test_what_says_no_time_has_failed(program, caplog):
    assert slept(program, 1)[0] <= 2
    assert "no new certificate: exit code 0" in caplog.text


def test_a_success_ends_the_failures_and_is_followed_by_a_minute_at_least(tmp_path):
    """A clock that is wrong makes every certificate due at once."""
    program = f"""
import pathlib, sys
file = pathlib.Path({str(tmp_path / "runs")!r})
runs = len(file.read_text()) if file.exists() else 0
file.write_text("x" * (runs + 1))
if runs % 4 != 3:
    sys.exit("not yet")
print("due at 2001-01-01T00:00:00Z")
"""
    waits = slept(program, 8)
    assert [wait == 60 for wait in waits] == [False, False, False, True] * 2
    assert waits[4] <= 2


def test_it_sleeps_until_the_certificate_is_due_in_short_stretches():
    due = datetime.now(UTC) + timedelta(days=3)
    waits = slept(f"print('due at {due.isoformat()}')", 5)
    assert waits == [60, 600, 600, 600, 600], "so that a machine that was asleep is not late"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_when_told_to(number):
    """It passes its options on: the child fails at once, because they are wrong."""
    process = subprocess.Popen(
        [sys.executable, "-m", "carico.enrolment", "--no-such-option"], stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            line = process.stderr.readline()
        finally:
            process.send_signal(number)
    assert "carico enrol: error: " in line
    assert process.returncode == 0


def test_it_imports_nothing_that_costs_memory():
    """It sleeps for days on every node."""
    program = "import sys, carico.enrolment.__main__; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not {"numpy", "cryptography", "kubernetes", "msgspec", "yaml"} & set(done.stdout.split())
