"""The progress line: no more often than a reader can follow, and removed before other output."""

import pytest

from testbed.experiment.plan import Plan
from testbed.experiment.progress import ERASE_LINE, ProgressLine, describe
from testbed.experiment.provider import Progress
from testbed.schedulers.spec import parse_spec
from workloads.scenario import load_scenario


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def written():
    return []


def test_a_terminal_shows_every_message_in_the_same_line(written, clock):
    line = ProgressLine(written.append, rewritten=True, clock=clock)
    for second in range(3):
        clock.now = second
        line.show(f"message {second}")
    assert written == [f"{ERASE_LINE}message {second}" for second in range(3)]


def test_a_terminal_is_not_flooded(written, clock):
    line = ProgressLine(written.append, rewritten=True, clock=clock)
    for step in range(100):
        clock.now = step / 100
        line.show("message")
    assert len(written) == 10


def test_a_message_never_wraps(written, clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    ProgressLine(written.append, rewritten=True, clock=clock).show("m" * 50)
    assert written == [ERASE_LINE + "m" * 19]


def test_a_cleared_line_is_gone(written, clock):
    line = ProgressLine(written.append, rewritten=True, clock=clock)
    line.clear()
    line.show("message")
    line.clear()
    line.clear()
    assert written == [f"{ERASE_LINE}message", ERASE_LINE]


def test_texts_around_the_line_are_written_once(written, clock):
    line = ProgressLine(written.append, rewritten=True, around=lambda: ("<", ">"), clock=clock)
    for second in range(2):
        clock.now = second
        line.show("m")
    line.clear()
    assert written == [f"<{ERASE_LINE}m", f"{ERASE_LINE}m", f"{ERASE_LINE}>"]


def test_a_log_gets_a_line_every_30_seconds_at_most(written, clock):
    line = ProgressLine(written.append, rewritten=False, clock=clock)
    for second in range(61):
        clock.now = second
        line.show(f"message {second}")
    line.clear()
    assert written == ["message 0\n", "message 30\n", "message 60\n"]


def test_the_period_of_a_log_can_be_shorter(written, clock):
    line = ProgressLine(written.append, rewritten=False, period_s=10, clock=clock)
    for second in range(21):
        clock.now = second
        line.show(f"message {second}")
    assert written == ["message 0\n", "message 10\n", "message 20\n"]


def test_a_patient_log_shows_nothing_of_a_short_run(written, clock):
    line = ProgressLine(written.append, rewritten=False, patience_s=30, clock=clock)
    for second in range(31):
        clock.now = second
        line.show(f"message {second}")
    assert written == ["message 30\n"]


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress("running", 180, 12, 1000, 42.9, 3600.0), "180/1000 bound · 0:42/60:00"),
        (Progress("running", 0, 0, 10, -0.5, 90.0), "0/10 bound · 0:00/1:30"),
        (Progress("done", 10, 10, 10, 61.0, 90.0), "done · 1:01/1:30"),
        (Progress("running", 1, 0, 2, 5.0, 90.0, attempt=2), "attempt 2 · 1/2 bound · 0:05/1:30"),
    ],
)
def test_a_message_names_the_pass_and_its_progress(progress, text):
    one = Plan(load_scenario("pi-2000"), (parse_spec("carico"),), repetitions=5).passes()[1]
    assert describe(one, progress) == f"pi-2000 × carico · rep 2/5 · {text}"
