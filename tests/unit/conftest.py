"""What all unit tests share: the same examples on every run, no test too slow, and a Ctrl-C that interrupts."""

import gc
import signal

import pytest
from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("deterministic")


def pytest_collection_finish():
    """Thousands of tests and all that they import stay to the end: nobody has to look for garbage among them."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts():
    """A shell lets what it starts in the background ignore Ctrl-C, and so would all that the tests start."""
    previous = signal.getsignal(signal.SIGINT)
    if previous == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
