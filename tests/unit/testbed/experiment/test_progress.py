"""The progress line: no more often than a reader can follow, and removed before other output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.experiment.plan import Plan
from testbed.experiment.progress import ERASE_LINE, Pace, ProgressLine, remaining
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


def test_a_long_name_leaves_the_figures_on_the_line(written, clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    spec = "my_package.schedulers.fit:LeastAllocated,weight=0.25,threshold=0.9,cpu=500m"
    figures = " · rep 2/5 · 180/1000 bound · 0:42, about 1:30 left"
    ProgressLine(written.append, rewritten=True, clock=clock).show(f"pi-2000 × {spec}{figures}")
    (shown,) = (text.removeprefix(ERASE_LINE) for text in written)
    assert len(shown) == 79
    assert shown.endswith(f"cpu=500m{figures}")
    assert shown.startswith("pi-2000 × ")


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


def test_every_new_phase_gets_a_line_in_a_log_at_once(written, clock):
    line = ProgressLine(written.append, rewritten=False, patience_s=30, clock=clock)
    line.show("opening", "opening")
    line.show("still opening", "opening")
    line.show("preparing", "preparing")
    line.show("running")
    assert written == ["opening\n", "preparing\n"]


@pytest.fixture
def passes():
    return Plan(load_scenario("pi-2000"), (parse_spec("carico"),), repetitions=4).passes()


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress("running", 180, 12, 1000), "180/1000 bound"),
        (Progress("preparing nodes", 0, 0, 10), "preparing nodes"),
        (Progress("done", 10, 10, 10), "done"),
        (Progress("running", 1, 0, 2, attempt=2), "attempt 2 · 1/2 bound"),
    ],
)
def test_a_message_names_the_pass_and_its_progress(clock, passes, progress, text):
    pace = Pace(clock)
    clock.now = 42.9
    assert pace.describe(passes[1], progress) == f"pi-2000 × carico · rep 2/4 · {text} · 0:42"


def test_the_time_left_follows_from_the_pace_so_far(clock, passes):
    pace = Pace(clock)
    clock.now = 100.0  # making the cluster is no part of the pace
    pace.describe(passes[0], Progress("running", 0, 0, 10))
    clock.now = 130.0
    half = Progress("running", 10, 0, 10)
    assert pace.describe(passes[0], half).endswith("2:10, about 3:30 left")
    clock.now = 160.0
    assert pace.describe(passes[3], Progress("done", 10, 10, 10)).endswith("2:40, about 0:00 left")


def test_what_was_cached_says_nothing_about_the_pace(clock, passes):
    pace = Pace(clock)
    pace.describe(passes[2], Progress("running", 0, 0, 10))
    clock.now = 30.0
    assert pace.describe(passes[3], Progress("running", 0, 0, 10)).endswith("0:30, about 0:30 left")


@given(share=st.floats(0.0, 1.0), elapsed_s=st.floats(0.0, 1e6))
def test_the_time_left_is_never_negative(share, elapsed_s):
    assert "-" not in remaining(elapsed_s, share)
