"""Pods that wait, and those that are expected."""

import math

import pytest

from carico.demand.waiting import Waiting


def test_a_pod_waits_until_it_has_a_node():
    waiting = Waiting(5.0)
    waiting.created("a", "pi", 0.0)
    waiting.created("a", "pi", 0.0)
    waiting.back("b", "web")
    assert len(waiting) == 2
    assert dict(waiting.workloads) == {"pi": 1, "web": 1}
    waiting.refused.add("a")
    waiting.placed("a")
    waiting.placed("a")
    assert "a" not in waiting
    assert not waiting.refused
    assert dict(waiting.workloads) == {"web": 1}


def test_as_many_pods_are_expected_as_came_of_late():
    waiting = Waiting(5.0)
    for number in range(20):
        waiting.created(str(number), "pi", 0.0)
        waiting.placed(str(number))
    assert waiting.expected(0.0)["pi"] == 20
    assert waiting.expected(5.0)["pi"] == pytest.approx(20 / math.e)
    assert waiting.expected(100.0) == {}


def test_without_foresight_nothing_is_expected():
    waiting = Waiting(0.0)
    waiting.created("a", "pi", 0.0)
    assert waiting.expected(1.0) == {"pi": 1}
