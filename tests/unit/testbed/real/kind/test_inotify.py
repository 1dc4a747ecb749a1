"""The number of free inotify instances; counting leaves none open."""

import gc
import resource
from pathlib import Path

import pytest

from testbed.real.kind.inotify import free_instances


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def few_descriptors():
    """Let the process open only a few more files."""
    gc.collect()  # otherwise files that other tests have dropped might be closed meanwhile
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_no_more_instances_are_opened_than_asked_for():
    assert free_instances(1) == 1


def test_the_limit_is_found_and_nothing_stays_open(few_descriptors):
    open_before = open_files()
    found = free_instances(10_000)
    assert 0 < found < 30
    assert open_files() == open_before
