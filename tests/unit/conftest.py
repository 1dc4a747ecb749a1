"""Shared by all unit tests: deterministic Hypothesis examples, a fast garbage collector, a wait for a condition."""

import gc
import time

import pytest
from hypothesis import settings

# Tests leave little garbage, and collecting it as often as Python does takes a twentieth of their time.
gc.set_threshold(50_000, 20, 20)
settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("deterministic")


def pytest_collection_finish():
    """Exclude the tests and their imports, which stay until the end, from garbage collection."""
    gc.freeze()


@pytest.fixture
def until():
    """Return a function that waits until a condition, brought about by another thread or process, is true."""

    def wait(condition, deadline_s=30):
        end_s = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < end_s, f"the condition was not met in {deadline_s} s"
            time.sleep(0.001)  # the other process may need this core

    return wait
