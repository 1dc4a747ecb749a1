"""Waits end in time, and say what they have seen."""

import pytest

from carico.errors import KubeRefused, KubeUnreachable
from testbed.errors import WaitTimedOut
from testbed.real.waiting import wait_until


def test_it_looks_until_nothing_is_lacking():
    seen, slept = iter(["2 of 3", "1 of 3", ""]), []
    wait_until("3 nodes are ready", lambda: next(seen), 60.0, 0.5, slept.append)
    assert slept == [0.5, 0.5]


def test_an_end_in_time_says_what_was_awaited_and_seen_last():
    with pytest.raises(WaitTimedOut, match="waited 0 s until 3 nodes are ready; last seen: 2 of 3"):
        wait_until("3 nodes are ready", lambda: "2 of 3", 0.0)


def test_a_server_that_does_not_answer_is_waited_for_one_that_refuses_is_not():
    def answer():
        raise next(answers)

    for error in (KubeUnreachable("no answer"), KubeRefused("too busy", 429), KubeRefused("it starts", 503)):
        answers = iter([error])
        with pytest.raises(WaitTimedOut, match=f"last seen: {error}"):
            wait_until("it answers", answer, 0.0)
    answers = iter([KubeRefused("forbidden", 403)])
    with pytest.raises(KubeRefused):
        wait_until("it answers", answer, 5.0)
