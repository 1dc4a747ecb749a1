"""Waits end in time, and say what they have seen last."""

import ast
from pathlib import Path

import pytest

import testbed.real
from carico.errors import KubeRefused, KubeUnreachable
from testbed.errors import WaitTimedOut
from testbed.real.waiting import wait_until

MODULES = sorted(Path(testbed.real.__file__).parent.rglob("*.py"))


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


def test_nothing_waits_without_a_deadline():
    """Whatever waits for a real cluster does so through `wait_until`, and is named after what it waits for."""
    assert len(MODULES) > 20
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("wait"):
                assert node.name.lstrip("_").startswith("wait_until"), f"{module}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                assert called != "sleep", f"{module}:{node.lineno} sleeps"
