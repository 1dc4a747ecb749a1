"""Finds the inputs that are worth keeping: those that reach code which neither seeds nor smaller inputs reach."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.target import Target

_ROOT = Path(__file__).parents[2]
_OURS = tuple(f"{_ROOT / package}/" for package in ("carico", "workloads", "testbed"))


def reaching_more(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """Return the inputs that reach more than the target's seeds and the smaller ones; each is given to the target."""
    seen: set[tuple[Any, ...]] = set()
    for data in target.seeds:
        seen |= _reached(target, data)
    more = []
    for data in sorted(inputs, key=lambda each: (len(each), each)):
        if new := _reached(target, data) - seen:
            seen |= new
            more.append(data)
    return more


def _reached(target: Target, data: bytes) -> set[tuple[Any, ...]]:
    """Return the steps from line to line of our own code that an input causes."""
    steps: set[tuple[Any, ...]] = set()

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        last = 0

        def stepped(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            steps.add((frame.f_code, event, last, frame.f_lineno))
            last = frame.f_lineno
            return stepped

        return stepped

    before = sys.gettrace()
    sys.settrace(called)
    try:
        target.attempt(data)
    finally:
        sys.settrace(before)
    return steps
