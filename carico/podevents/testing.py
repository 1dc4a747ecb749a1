"""Test kit: a source of pod events that the test moves by hand."""

from __future__ import annotations

from carico.clock import Clock
from carico.errors import PodEventsError
from carico.podevents.pod_changes import RunningPods
from carico.podevents.source import OnChange


class FakePodEvents:
    """A `PodEventSource` whose pods the test decides; changes come from the thread that makes them.

    Parameters
    ----------
    clock : Clock
        Dates the changes.

    Examples
    --------
    >>> from carico.testing import ManualClock
    >>> source = FakePodEvents(ManualClock())
    >>> source.become("a", "b")
    >>> source.start(lambda change, at: print(f"{change:+d}"))
    +1
    +1
    >>> source.become("b")
    -1
    >>> source.count()
    1
    """

    def __init__(self, clock: Clock) -> None:
        self.problem: str = ""
        """What start and count fail with, unless empty."""
        self._clock = clock
        self._running: set[str] = set()
        self._told: RunningPods | None = None

    def become(self, *pods: str) -> None:
        """Let exactly these pods run."""
        self._running = set(pods)
        if self._told is not None:
            self._told.become(self._running)

    def start(self, on_change: OnChange) -> None:
        """See `PodEventSource`."""
        self._check()
        self._told = RunningPods(on_change, self._clock)
        self._told.become(self._running)

    def count(self) -> int:
        """See `PodEventSource`."""
        self._check()
        return len(self._running)

    def close(self) -> None:
        """See `PodEventSource`."""
        self._told = None

    def _check(self) -> None:
        if self.problem:
            raise PodEventsError(self.problem)
