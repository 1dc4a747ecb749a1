"""Parts of the programs' command lines: parsers that suggest commands, readers of numbers, signals that end a program.

The message of a reader gives the value seen and the values allowed; argparse adds the option and ends the program with
code 2.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from workloads.errors import did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser whose errors about unknown commands and choices say which known one was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Print the message with the usage, and exit with code 2."""
        if match := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += did_you_mean(match[1], re.findall(r"[\w-]+", match[2]))
        super().error(message)


def whole(allowed: range) -> Callable[[str], int]:
    """Return a reader for whole numbers."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = allowed.stop
        if number not in allowed:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {allowed[0]} to {allowed[-1]}")
        return number

    return read


def decimal(lowest: float, highest: float) -> Callable[[str], float]:
    """Return a reader for numbers that may have a fraction; both limits are allowed."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {lowest:g} to {highest:g}")
        return number

    return read


def end_on_signals() -> None:
    """Let SIGINT and SIGTERM end the program at once, with exit code 130 and 143.

    The first process of a container gets no default action for signals: without handlers a pod would outlive its
    deletion by the whole grace period.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: os._exit(128 + received))


@contextmanager
def held_signals(*numbers: int) -> Iterator[None]:
    """Hold signals back, in this thread and in those it starts, for ``signal.sigtimedwait`` to take.

    A program that has something to finish then ends where it waits for signals, not wherever it happens to be. Held
    signals reach the first process of a container, too.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        while signal.sigtimedwait(numbers, 0):
            pass  # a signal that was sent twice is handled once
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
