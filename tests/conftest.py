"""Shared by all tests: Ctrl-C interrupts."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts():
    """Undo a shell's setting that background processes ignore Ctrl-C, which child processes would inherit."""
    previous = signal.getsignal(signal.SIGINT)
    if previous == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
