"""A session with a server that may go away: it runs in a thread and begins again after failures, with jittered waits.

`SessionSource` is the base of the sources of pod events that hold a session.
"""

from __future__ import annotations

import logging
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from carico.backoff import Backoff
from carico.clock import Clock, SystemClock
from carico.errors import PodEventsError
from carico.podevents.pod_changes import RunningPods
from carico.podevents.source import OnChange

_log = logging.getLogger(__name__)
_BACKOFF = Backoff(first_s=0.2, longest_s=10.0)

Session = Callable[[], Iterator[None]]
"""Yields once when everything that exists has been reported, and then after every piece of news."""


class Reconnecting:
    """Runs a session until it is closed.

    Parameters
    ----------
    name : str
        What the session is with, for the log.
    session : callable
        Raises PodEventsError when it fails. A session that merely ends begins again and does not count as a failure.
    rng : random.Random
        Spreads the waits, so that after a server's failure the nodes do not all come back at once.
    interrupt : callable
        Ends a session that waits for news; called once, by `close`.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        rng: random.Random,
        interrupt: Callable[[], object],
    ) -> None:
        self._name = name
        self._session = session
        self._rng = rng
        self._interrupt = interrupt
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    def start(self) -> None:
        """Begin the first session in the caller's thread, so that its errors reach the caller; continue it in a thread.

        Raises
        ------
        PodEventsError
            If the session cannot begin, or this was started before.
        """
        if self._thread is not None or self.closed:
            raise PodEventsError(f"{self._name} was started before: make a new source for every start")
        session = self._session()
        next(session)
        self._thread = threading.Thread(target=self._run, args=(session,), name=self._name, daemon=True)
        self._thread.start()

    def close(self, patience_s: float = 5.0) -> None:
        """Begin no more sessions, and wait for the thread to end, `patience_s` seconds at most."""
        if not self.closed:
            self._closed.set()
            self._interrupt()
        if self._thread is not None:
            self._thread.join(patience_s)

    def _run(self, session: Iterator[None]) -> None:
        failed_in_a_row = 0
        while not self.closed:
            problem = ""
            try:
                for _ in session:
                    if failed_in_a_row:
                        _log.info("%s: connected again", self._name)
                    failed_in_a_row = 0
            except PodEventsError as error:
                problem = str(error)
            except Exception as error:
                # Any error: if the thread ended silently, the count would be frozen for good. A session whose
                # connection is closed while it waits may fail in any way.
                problem = repr(error)
                if not self.closed:
                    _log.exception("%s: unexpected error", self._name)
            if self.closed:
                return
            failed_in_a_row += 1
            wait_s = _BACKOFF.wait_s(failed_in_a_row, self._rng)
            if problem:
                _log.warning("%s: %s; trying again in %.1f s", self._name, problem, wait_s)
            self._closed.wait(wait_s)
            session = self._session()


class SessionSource(ABC):
    """A source of pod events that holds a session, see `PodEventSource`.

    Parameters
    ----------
    name : str
        What the session is with, for the log.
    clock : Clock, optional
        Dates the changes; the machine's by default.
    interrupt : callable
        See `Reconnecting`.
    """

    def __init__(
        self,
        name: str,
        clock: Clock | None,
        interrupt: Callable[[], object],
    ) -> None:
        self._clock = clock or SystemClock()
        self._sessions = Reconnecting(name, self._session, random.Random(), interrupt)

    def start(self, on_change: OnChange) -> None:
        """See `PodEventSource`."""
        self._pods = RunningPods(on_change, self._clock)
        self._sessions.start()

    def close(self) -> None:
        """See `PodEventSource`."""
        self._sessions.close()

    @abstractmethod
    def _session(self) -> Iterator[None]:
        """Give `_pods` what exists, yield, and yield again after every piece of news."""
