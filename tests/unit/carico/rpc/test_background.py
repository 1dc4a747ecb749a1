"""Calls off the caller's path: never waiting, newest wins, patient with who does not answer."""

import asyncio
import queue
import random
import threading

import pytest

from carico.backoff import Backoff
from carico.errors import Unreachable
from carico.rpc.background import BackgroundCalls
from carico.rpc.loop import LoopThread

PATIENCE_S = 10.0


class Destination:
    """Answers what the test wants, when it wants, and tells the test what has arrived."""

    def __init__(self):
        self.arrived = []
        self._called, self._answers = threading.Semaphore(0), queue.Queue()

    async def __call__(self, value):
        self.arrived.append(value)
        self._called.release()
        answer = await asyncio.to_thread(self._answers.get, timeout=PATIENCE_S)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self):
        """Until it is called; whatever was called before has been answered then."""
        assert self._called.acquire(timeout=PATIENCE_S)

    def answer(self, answer):
        self._answers.put(answer)


@pytest.fixture
def loop():
    with LoopThread("test") as loop:
        yield loop


@pytest.fixture
def destination():
    return Destination()


@pytest.fixture
def calls(loop, destination):
    calls = BackgroundCalls(loop, "test", destination, random.Random(1), Backoff(1e-6, 1e-6))
    yield calls
    destination.answer("the last")
    calls.close()


def test_the_newest_value_is_sent_next_and_what_it_replaced_never(calls, destination):
    calls.submit(1)
    destination.wait()
    for value in (2, 3, 4):
        calls.submit(value)
    assert calls.latest() is None, "nobody has answered yet"
    destination.answer("one")
    destination.wait()
    assert calls.latest() == "one"
    assert destination.arrived == [1, 4]
    assert (calls.succeeded, calls.replaced) == (1, 2)


def test_a_failure_keeps_the_last_answer_and_the_next_value_is_tried(calls, destination, caplog):
    for value, answer in enumerate(["one", Unreachable("nobody there"), RuntimeError("a bug"), "four"]):
        calls.submit(value)
        destination.wait()
        assert calls.latest() == (None if value == 0 else "one"), "what failed has replaced nothing"
        destination.answer(answer)
    calls.submit(4)
    destination.wait()
    assert calls.latest() == "four"
    assert destination.arrived == [0, 1, 2, 3, 4]
    assert (calls.succeeded, calls.failed) == (2, 2)
    assert "nobody there" in caplog.text
    assert "RuntimeError: a bug" in caplog.text


def test_a_full_disk_is_told_in_a_line_a_bug_with_its_place(calls, destination, caplog):
    for answer in (OSError(28, "No space left on device"), RuntimeError("a bug")):
        calls.submit(0)
        destination.wait()
        destination.answer(answer)
    calls.submit(0)
    destination.wait()
    told, bug = caplog.records
    assert (told.getMessage(), told.exc_info) == ("test: [Errno 28] No space left on device", None)
    assert bug.exc_info is not None
    destination.answer("done")


def test_closing_interrupts_the_back_off(loop, destination, caplog):
    calls = BackgroundCalls(loop, "test", destination, random.Random(1), Backoff(1e4, 1e4))
    calls.submit(1)
    destination.wait()
    destination.answer(Unreachable("nobody there"))
    while not calls.failed:
        pass
    calls.submit(2)
    calls.close()
    assert destination.arrived == [1]
    assert calls.failed == 1
    assert "nobody there" in caplog.text


def test_closing_sends_what_waits(loop, destination):
    """A last checkpoint is worth nothing unless it is written."""
    calls = BackgroundCalls(loop, "test", destination, random.Random(1))
    for answer in ("one", "the last"):
        destination.answer(answer)
    calls.submit(1)
    calls.submit(2)
    calls.close()
    assert destination.arrived[-1] == 2
    assert calls.latest() == {1: "one", 2: "the last"}[len(destination.arrived)]
