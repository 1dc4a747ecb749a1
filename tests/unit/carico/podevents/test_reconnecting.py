"""A session in a thread: failures are logged, followed by a wait, and end nothing."""

import queue
import random
import threading

import pytest

from carico.errors import PodEventsError
from carico.podevents.reconnecting import Reconnecting

PATIENCE_S = 10.0


def make(session, interrupt=lambda: None):
    return Reconnecting("the test", session, random.Random(1), interrupt)


def test_errors_of_the_first_session_reach_the_caller():
    def session():
        raise PodEventsError("nobody there")
        yield

    sessions = make(session)
    with pytest.raises(PodEventsError, match="nobody there"):
        sessions.start()
    sessions.close()


@pytest.mark.parametrize("problem", [PodEventsError("cut"), KeyError("a bug")])
def test_a_session_begins_again_after_any_failure(problem, quick_reconnects, caplog):
    begun, end = queue.SimpleQueue(), threading.Event()

    def session():
        begun.put(True)
        yield
        if begun.qsize() < 3:
            raise problem
        end.wait(PATIENCE_S)

    sessions = make(session, interrupt=end.set)
    sessions.start()
    for _ in range(100):
        if begun.qsize() == 3:
            break
        threading.Event().wait(0.02)
    sessions.close()
    assert begun.qsize() == 3
    assert caplog.text.count("trying again") == 2


def test_a_session_that_just_ends_is_no_failure(quick_reconnects, caplog):
    begun, end = queue.SimpleQueue(), threading.Event()

    def session():
        begun.put(True)
        yield
        if begun.qsize() > 1:
            end.wait(PATIENCE_S)

    sessions = make(session, interrupt=end.set)
    sessions.start()
    for _ in range(2):
        begun.get(timeout=PATIENCE_S)
    sessions.close()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
