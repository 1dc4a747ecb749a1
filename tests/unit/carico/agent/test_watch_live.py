"""`carico watch` on this very machine, with real load and real signals. Needs pressure stall information."""

import errno
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import uuid
from itertools import pairwise

import pytest

pytestmark = pytest.mark.machine

IDLE_S, LOAD_S, AFTER_S = 4, 6, 5


@pytest.fixture
def started():
    """Starts processes and ends them all, whatever the test does."""
    processes = []

    def start(*arguments, **options):
        processes.append(subprocess.Popen(arguments, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()


def watch(start, *arguments):
    return start(
        *(sys.executable, "-m", "carico", "watch", "--json", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.quiet
def test_the_signal_falls_while_pi_runs_and_recovers(started):
    # Marks this test's own load: another one beside it may compute pi as well.
    mark = f"load_of={uuid.uuid4().hex}"
    watching = watch(started, "--duration", str(IDLE_S + LOAD_S + AFTER_S), "--pods-matching", mark)
    # Three for every CPU: all busy and others waiting on each of them, so that usage is near 1 whatever else this
    # machine does. The fall that a single one causes would have to be told from other people's load.
    lanes = 3 * os.cpu_count()
    running, rows = [], []
    began = idle_until = loaded = math.inf
    for line in watching.stdout:
        rows.append(json.loads(line))
        began = min(began, time.monotonic() - rows[-1]["at_s"])
        if IDLE_S <= round(rows[-1]["at_s"]) < IDLE_S + LOAD_S:
            idle_until = min(idle_until, time.monotonic())
            running = [process for process in running if process.poll() is None]
            while len(running) < lanes:  # in every lane one after another
                running.append(
                    started(sys.executable, "-X", mark, "-m", "workloads.pi", "2000", stdout=subprocess.DEVNULL)
                )
            loaded = min(loaded, time.monotonic())
        elif running:
            busy_until = time.monotonic()
            for process in running:
                process.kill()
                process.wait()
            running = []
            unloaded = time.monotonic()
    assert watching.wait() == 0, watching.stderr.read()
    ended = [row["at_s"] for row in rows]
    # A second each, but for those in which this machine did nothing.
    assert statistics.median(after - before for before, after in pairwise(ended)) == pytest.approx(1, abs=0.2)
    assert len(rows) <= IDLE_S + LOAD_S + AFTER_S <= round(ended[-1])

    # Without the rows in which the watch or the load starts and the moving averages follow.
    limits = (began + 1.5, idle_until), (loaded + 2, busy_until), (unloaded + 2, math.inf)
    phases = [[row for row in rows if first <= began + row["at_s"] <= last] for first, last in limits]
    idle, busy, after = (statistics.median(row["capacity_signal"] for row in phase) for phase in phases)
    pods = [[row["pods"] for row in phase] for phase in phases]
    seen = f"signal {idle:.3f} -> {busy:.3f} -> {after:.3f}, pods {pods}"
    assert busy < idle / 2, seen
    # Not to where it was: the usual load, its unit, has become a heavy one, and is forgotten in half a minute.
    assert after > 2 * busy + 0.02, seen
    assert set(pods[0]) == {0}, seen
    assert max(pods[1]) == lanes, seen
    assert set(pods[2]) == {0}, seen
    assert min(row["cpu_utilisation"] for row in phases[1]) > 0.9, seen


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ended_by_a_signal_it_leaves_whole_lines(started, number, code):
    asked = time.monotonic()
    watching = watch(started)
    first = json.loads(watching.stdout.readline())
    took_s = time.monotonic() - asked
    watching.send_signal(number)
    rest, errors = watching.communicate()
    assert watching.returncode == code
    assert errors == ""
    assert 0.9 < first["at_s"] < took_s
    assert all(json.loads(line) for line in rest.splitlines())


def test_on_a_terminal_it_rewrites_its_display(started):
    # A terminal of its own: what the process writes to one end is read from the other.
    ours, theirs = os.openpty()
    try:
        watching = started(
            *(sys.executable, "-m", "carico", "watch", "--duration", "5"),
            stdout=theirs,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(theirs)
        shown = b"".join(iter(lambda: read(ours), b"")).decode()
        assert watching.wait() == 0
    finally:
        os.close(ours)
    assert re.match(r"carico watch: pods fixed at 0; \d s", shown)
    displays = shown.count("Pod-Capacity")
    assert displays > 1
    assert shown.count("\x1b[6F") == displays - 1


def read(terminal):
    """What was written to a terminal's other end, nothing once that is closed and all is read."""
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise
