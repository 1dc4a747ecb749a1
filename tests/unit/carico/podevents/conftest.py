"""What the tests of all sources share: a callback that remembers changes, and that a test can wait for."""

import queue

import pytest

from carico.backoff import Backoff

PATIENCE_S = 30.0


class Told:
    """The changes a source has told, and their sum."""

    def __init__(self):
        self.changes = []
        self.count = 0
        self._news = queue.SimpleQueue()

    def __call__(self, change, at):
        self._news.put((change, at))

    def wait_for(self, count):
        """Take changes in until their sum is `count`, and return them."""
        took = []
        try:
            while self.count != count:
                took.append(self._news.get(timeout=PATIENCE_S))
                self.count += took[-1][0]
        except queue.Empty:
            pytest.fail(f"waited {PATIENCE_S} s for {count} pods, was told of {self.count}")
        self.changes += took
        return took

    def so_far(self):
        """Take in what has been told until now, and return the sum."""
        while not self._news.empty():
            self.changes.append(self._news.get())
            self.count += self.changes[-1][0]
        return self.count


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def quick_reconnects(monkeypatch):
    """Failed sessions are begun again at once."""
    monkeypatch.setattr(Backoff, "wait_s", lambda self, failures, rng: 0.01)
