"""The running pods that a source has reported so far: compared with what it sees next, they give the changes to report.

A listing and a stream are joined without loss or double count by two rules. The stream begins no later than the
listing, so that it holds whatever happens in between. And a source reports differences between sets of UIDs, so that
a pod that is in both is reported once.
"""

from __future__ import annotations

from collections.abc import Mapping

from carico.clock import Clock
from carico.podevents.source import OnChange, PodChange


class RunningPods:
    """Turns sets of running pods into changes.

    Parameters
    ----------
    on_change : callable
        Called with every change.
    clock : Clock
        Dates the changes.

    Examples
    --------
    >>> from carico.testing import ManualClock
    >>> pods = RunningPods(lambda pod: print(f"{pod.change:+d} {pod.uid} {pod.pod}"), ManualClock())
    >>> pods.replace({"uid-1": "jobs/pi-1", "uid-2": "jobs/pi-2"})
    +1 uid-1 jobs/pi-1
    +1 uid-2 jobs/pi-2
    >>> pods.replace({"uid-2": "jobs/pi-2"})
    -1 uid-1 jobs/pi-1
    >>> pods.replace({"uid-2": "jobs/pi-2"})
    """

    def __init__(self, on_change: OnChange, clock: Clock) -> None:
        self._on_change = on_change
        self._clock = clock
        self._pods: dict[str, str] = {}

    def replace(self, pods: Mapping[str, str]) -> None:
        """Replace the running pods by these, and report what has changed since the last call.

        Stops come first, so that the count is never too high; starts and stops are each in the order of the UIDs.

        Parameters
        ----------
        pods : mapping of str to str
            The names of all pods that run, by UID: NAMESPACE/NAME, empty where it is not known. A name that becomes
            known later is no change.
        """
        before, self._pods = self._pods, dict(pods)
        at = self._clock.now()
        for uid in sorted(before.keys() - pods.keys()):
            self._on_change(PodChange(-1, at, uid, before[uid]))
        for uid in sorted(pods.keys() - before.keys()):
            self._on_change(PodChange(+1, at, uid, pods[uid]))
