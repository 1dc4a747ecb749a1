"""The running pods a source has told of: whatever it sees next, listing or event, becomes the changes still to tell.

A listing and a stream are joined without loss or double count by two rules. A source subscribes before it lists, so
that what happens in between is in the stream at least. And it tells differences of sets of ids, so that what is in
both is told once.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from carico.clock import Clock
from carico.podevents.source import OnChange


class RunningPods:
    """Turns sets of running pods into changes of their number.

    Parameters
    ----------
    on_change : callable
        Gets every change.
    clock : Clock
        Dates the changes.

    Examples
    --------
    >>> from carico.testing import ManualClock
    >>> pods = RunningPods(lambda change, at: print(f"{change:+d} at {at} s"), ManualClock(3.0))
    >>> pods.become({"a", "b"})
    +1 at 3.0 s
    +1 at 3.0 s
    >>> pods.become({"b"})
    -1 at 3.0 s
    >>> pods.become({"b"})
    """

    def __init__(self, on_change: OnChange, clock: Clock) -> None:
        self._on_change = on_change
        self._clock = clock
        self._pods: frozenset[str] = frozenset()

    def become(self, pods: AbstractSet[str]) -> None:
        """Tell what has changed since the last call: stops first, so that the count is never above the truth."""
        before, self._pods = self._pods, frozenset(pods)
        at = self._clock.now()
        for change, number in ((-1, len(before - self._pods)), (+1, len(self._pods - before))):
            for _ in range(number):
                self._on_change(change, at)
