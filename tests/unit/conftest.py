"""What all unit tests share: the same examples on every run, and no garbage among the tests."""

import gc
import time

import pytest
from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("deterministic")


def pytest_collection_finish():
    """Thousands of tests and all that they import stay to the end: nobody has to look for garbage among them."""
    gc.freeze()


@pytest.fixture
def until():
    """Wait for something that another thread or process does."""

    def wait(condition, deadline_s=30):
        end_s = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < end_s, "nothing came of it"
            time.sleep(0.001)  # the core may be the one that the other process needs

    return wait
