"""The running pods that a source has told of: what it sees next, listing or event, becomes the changes still to tell.

A listing and a stream are joined without loss or double count by two rules. The stream begins no later than the
listing, so that it holds whatever happens in between. And a source tells differences between sets of UIDs, so that
what is in both is told once.
"""

from __future__ import annotations

from collections.abc import Mapping

from carico.clock import Clock
from carico.podevents.source import OnChange, PodChange


class RunningPods:
    """Turns what runs into changes of what runs.

    Parameters
    ----------
    on_change : callable
        Gets every change.
    clock : Clock
        Dates the changes.

    Examples
    --------
    >>> from carico.testing import ManualClock
    >>> pods = RunningPods(lambda told: print(f"{told.change:+d} {told.uid} {told.pod}"), ManualClock())
    >>> pods.become({"uid-1": "jobs/pi-1", "uid-2": "jobs/pi-2"})
    +1 uid-1 jobs/pi-1
    +1 uid-2 jobs/pi-2
    >>> pods.become({"uid-2": "jobs/pi-2"})
    -1 uid-1 jobs/pi-1
    >>> pods.become({"uid-2": "jobs/pi-2"})
    """

    def __init__(self, on_change: OnChange, clock: Clock) -> None:
        self._on_change = on_change
        self._clock = clock
        self._pods: dict[str, str] = {}

    def become(self, pods: Mapping[str, str]) -> None:
        """Tell what has changed since the last call.

        Stops come first, so that the count is never too high, and each kind in the order of the UIDs.

        Parameters
        ----------
        pods : mapping of str to str
            The UIDs of all pods that run, with their names as NAMESPACE/NAME, empty where it is not known. A name that
            becomes known later is no change.
        """
        before, self._pods = self._pods, dict(pods)
        at = self._clock.now()
        for uid in sorted(before.keys() - pods.keys()):
            self._on_change(PodChange(-1, at, uid, before[uid]))
        for uid in sorted(pods.keys() - before.keys()):
            self._on_change(PodChange(+1, at, uid, pods[uid]))
