"""What the tests of all sources share: a callback that remembers changes, and that a test can wait for."""

import queue

import pytest

from carico.backoff import Backoff

PATIENCE_S = 30.0


class Told:
    """The changes a source has told; none may start a pod that runs, or stop one that does not."""

    def __init__(self):
        self.changes = []
        self.running = {}
        """Names of the pods that run, by UID, as told when they started."""
        self._news = queue.SimpleQueue()

    def __call__(self, change):
        self._news.put(change)

    @property
    def count(self):
        return len(self.running)

    @property
    def steps(self):
        """Starts as 1, stops as -1."""
        return [told.change for told in self.changes]

    def wait_for(self, count):
        """Take changes in until their sum is `count`, and return them."""
        took = []
        try:
            while self.count != count:
                took.append(self._take(self._news.get(timeout=PATIENCE_S)))
        except queue.Empty:
            pytest.fail(f"waited {PATIENCE_S} s for {count} pods, was told of {self.count}")
        return took

    def so_far(self):
        """Take in what has been told until now, and return the sum."""
        while not self._news.empty():
            self._take(self._news.get())
        return self.count

    def _take(self, told):
        assert (told.uid in self.running) == (told.change == -1), f"{told}, while {self.running} run"
        self.changes.append(told)
        if told.change == 1:
            self.running[told.uid] = told.pod
        else:
            del self.running[told.uid]
        return told


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def quick_reconnects(monkeypatch):
    """Failed sessions are begun again at once."""
    monkeypatch.setattr(Backoff, "wait_s", lambda self, failures, rng: 0.01)
