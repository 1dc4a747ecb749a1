"""What all tests share: a Ctrl-C that interrupts."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts():
    """A shell lets what it starts in the background ignore Ctrl-C, and so would all that the tests start."""
    previous = signal.getsignal(signal.SIGINT)
    if previous == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
