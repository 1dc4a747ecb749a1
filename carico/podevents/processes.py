"""Processes that stand for pods, counted again and again: for a machine without a container runtime.

A process that lives shorter than the time between two looks may be missed, and no start is known before it happens.
A process's id is its UID: the kernel hands out all others before it uses one again.
"""

from __future__ import annotations

import logging
import threading

from carico.clock import Clock, SystemClock
from carico.errors import PodEventsError, TelemetryError
from carico.podevents.pod_changes import RunningPods
from carico.podevents.process_table import MatchingProcesses
from carico.podevents.source import OnChange

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2


class ProcessEvents:
    """Starts and stops of the processes whose command line matches; see `carico.podevents.source.PodEventSource`.

    Parameters
    ----------
    processes : MatchingProcesses
    clock : Clock, optional
        Dates the changes; the machine's by default.
    """

    def __init__(self, processes: MatchingProcesses, clock: Clock | None = None) -> None:
        self._processes = processes
        self._clock = clock or SystemClock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.failures = 0
        """How often the processes could not be listed."""

    def start(self, on_change: OnChange) -> None:
        """Tell what runs already, then look again and again in a thread; raises PodEventsError without a procfs."""
        pods = RunningPods(on_change, self._clock)
        pods.become(self._running())
        self._thread = threading.Thread(target=self._look, args=(pods,), name="processes", daemon=True)
        self._thread.start()

    def count(self) -> int:
        """Return how many run now; raises PodEventsError without a procfs."""
        return len(self._running())

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self, pods: RunningPods) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            try:
                pods.become(self._running())
            except PodEventsError as error:
                self.failures += 1
                if self.failures == 1:
                    _log.warning("processes cannot be counted: %s", error)

    def _running(self) -> dict[str, str]:
        try:
            return {str(process): "" for process in self._processes.running()}
        except TelemetryError as error:
            raise PodEventsError(str(error)) from error
