"""The running pods that a source has told of: what it sees next, listing or event, becomes the changes still to tell.

A listing and a stream are joined without loss or double count by two rules. The stream begins no later than the
listing, so that it holds whatever happens in between. And a source tells differences between sets of UIDs, so that
what is in both is told once.
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
        """Tell what has changed since the last call; stops come first, so that the count is never too high."""
        before, self._pods = self._pods, frozenset(pods)
        at = self._clock.now()
        for change, number in ((-1, len(before - self._pods)), (+1, len(self._pods - before))):
            for _ in range(number):
                self._on_change(change, at)
