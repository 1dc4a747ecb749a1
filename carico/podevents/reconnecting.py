"""A session with something that may go away: held in a thread and begun again after every failure, with jittered waits.

`SessionSource` is what sources of pod events that hold a session have in common.
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

_LOG = logging.getLogger(__name__)
_BACKOFF = Backoff(first_s=0.2, longest_s=10.0)

Session = Callable[[], Iterator[None]]
"""Yields once when all that exists has been told, and then after every piece of news."""


class Reconnecting:
    """Runs a session until it is closed.

    Parameters
    ----------
    name : str
        What the session is with, for the log.
    session : callable
        Raises PodEventsError when it fails. A session that merely ends is begun again and does not count as a failure.
    rng : random.Random
        Spreads the waits, so that a server that failed for all nodes is not asked by all at once.
    interrupt : callable
        Ends a session that waits for news; called once, by `close`.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        rng: random.Random,
        interrupt: Callable[[], object] = lambda: None,
    ) -> None:
        self.failures = 0
        """How often a session failed or could not be begun, since the start."""
        self.connected = False
        """Whether news arrives; without it the count is the last one known."""
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
        """Begin the first session here, so that its errors reach the caller, and go on with it in a thread.

        Raises
        ------
        PodEventsError
            If the session cannot be begun, or was begun before.
        """
        if self._thread is not None or self.closed:
            raise PodEventsError(f"{self._name} was started before: make a new source for every start")
        session = self._session()
        next(session)
        self.connected = True
        self._thread = threading.Thread(target=self._run, args=(session,), name=self._name, daemon=True)
        self._thread.start()

    def close(self, patience_s: float = 5.0) -> None:
        """Begin no further session and wait for the thread, `patience_s` seconds at most."""
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
                        _LOG.info("%s: connected again", self._name)
                    self.connected, failed_in_a_row = True, 0
            except PodEventsError as error:
                problem = str(error)
            except Exception as error:
                # Whatever the error: a thread that ends in silence would freeze the count for good. A session whose
                # connection is closed under it may fail in any way.
                problem = repr(error)
                if not self.closed:
                    _LOG.exception("%s: unexpected", self._name)
            if self.closed:
                break
            self.connected = False
            failed_in_a_row += 1
            wait_s = _BACKOFF.wait_s(failed_in_a_row, self._rng)
            if problem:
                self.failures += 1
                _LOG.warning("%s: %s; trying again in %.1f s", self._name, problem, wait_s)
            self._closed.wait(wait_s)
            session = self._session()
        self.connected = False


class SessionSource(ABC):
    """A source of pod events that learns of them in a session, see `PodEventSource`.

    Parameters
    ----------
    name : str
        What the session is with, for the log.
    clock : Clock, optional
        Dates the changes; the machine's by default.
    rng : random.Random, optional
        Spreads the waits between attempts after failures; seeded by the system by default.
    interrupt : callable, optional
        See `Reconnecting`.
    """

    def __init__(
        self,
        name: str,
        clock: Clock | None,
        rng: random.Random | None,
        interrupt: Callable[[], object] = lambda: None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._sessions = Reconnecting(name, self._session, rng or random.Random(), interrupt=interrupt)

    @property
    def failures(self) -> int:
        """How often the session was lost or could not be begun."""
        return self._sessions.failures

    @property
    def connected(self) -> bool:
        """Whether news arrives; without it the count is the last one known."""
        return self._sessions.connected

    def start(self, on_change: OnChange) -> None:
        """See `PodEventSource`."""
        self._pods = RunningPods(on_change, self._clock)
        self._sessions.start()

    def close(self) -> None:
        """See `PodEventSource`."""
        self._sessions.close()

    @abstractmethod
    def _session(self) -> Iterator[None]:
        """Tell `_pods` what exists, yield, and yield again after every piece of news."""
