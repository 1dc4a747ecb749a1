"""What all unit tests share: the same examples on every run, and no garbage among the tests."""

import gc

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("deterministic")


def pytest_collection_finish():
    """Thousands of tests and all that they import stay to the end: nobody has to look for garbage among them."""
    gc.freeze()
