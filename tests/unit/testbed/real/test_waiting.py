"""Waits end in time, and say what they have seen last."""

import pytest

from carico.errors import KubeRefused, KubeUnreachable
from testbed.errors import WaitTimedOut
from testbed.real.waiting import wait_until


def test_it_polls_until_nothing_is_lacking():
    seen, slept = iter(["2 of 3", "1 of 3", ""]), []
    wait_until("3 nodes are ready", lambda: next(seen), 60.0, 0.5, slept.append)
    assert slept == [0.5, 0.5]


def test_a_timeout_says_what_was_awaited_and_seen_last():
    with pytest.raises(WaitTimedOut, match="waited 0 s until 3 nodes are ready; last seen: 2 of 3"):
        wait_until("3 nodes are ready", lambda: "2 of 3", 0.0)


def test_a_wait_goes_on_without_an_answer_but_not_after_a_refusal():
    def answer():
        raise next(answers)

    for error in (KubeUnreachable("no answer"), KubeRefused("too busy", 429), KubeRefused("it starts", 503)):
        answers = iter([error])
        with pytest.raises(WaitTimedOut, match=f"last seen: {error}"):
            wait_until("it answers", answer, 0.0)
    answers = iter([KubeRefused("forbidden", 403)])
    with pytest.raises(KubeRefused):
        wait_until("it answers", answer, 5.0)
