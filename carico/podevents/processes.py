"""Processes that stand for pods, counted several times a second: for a machine without a container runtime.

A process that ends before the next look may be missed, and no start is known before it happens. The process's id serves
as the UID: the kernel hands out all other ids before it uses one again.
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

    def start(self, on_change: OnChange) -> None:
        """Report what runs already, then look repeatedly in a thread; raises PodEventsError without a procfs."""
        pods = RunningPods(on_change, self._clock)
        pods.replace(self._running())
        self._thread = threading.Thread(target=self._look, args=(pods,), name="processes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self, pods: RunningPods) -> None:
        warned = False
        while not self._closed.wait(LOOK_EVERY_S):
            try:
                pods.replace(self._running())
            except PodEventsError as error:
                if not warned:
                    _log.warning("processes cannot be counted: %s", error)
                warned = True

    def _running(self) -> dict[str, str]:
        try:
            return {str(process): "" for process in self._processes.running()}
        except TelemetryError as error:
            raise PodEventsError(str(error)) from error
