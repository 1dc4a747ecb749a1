"""Calls made off the caller's path: a loop that must not wait leaves a value and takes the latest answer.

One thread and one mailbox a destination. The mailbox holds one value, the newest: what was not sent in time is no news.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

import numpy as np

from carico.errors import CaricoError

_log = logging.getLogger(__name__)

Sent = TypeVar("Sent")
Received = TypeVar("Received")


@dataclass(frozen=True)
class Backoff:
    """How long to leave a destination alone after failures in a row: doubling, with jitter, up to a bound.

    Parameters
    ----------
    first_s, longest_s : float
        Seconds. The jitter takes up to half away, so that a thousand nodes do not come back at once.
    """

    first_s: float = 0.5
    longest_s: float = 30.0

    def delay_s(self, failures: int, rng: np.random.Generator) -> float:
        """Return the delay after so many failures in a row, in [1/2, 1] of what doubling gives."""
        doubled: float = self.first_s * 2.0 ** min(failures - 1, 60)
        return min(doubled, self.longest_s) * float(rng.uniform(0.5, 1.0))


class BackgroundCalls(Generic[Sent, Received]):
    """Makes calls to one destination in a thread of its own, until it is closed.

    Parameters
    ----------
    name : str
        For logs.
    call : callable
        Takes what was submitted and returns the answer. What it raises counts as a failure and delays the next call.
    rng : numpy.random.Generator
        Of the jitter; used by the thread alone.
    backoff : Backoff, optional

    Attributes
    ----------
    succeeded, failed, replaced : int
        Calls that were answered, calls that were not, and values that a newer one replaced before they were sent.
    last_error : str
        Why the last call failed; empty if it did not.
    """

    def __init__(
        self,
        name: str,
        call: Callable[[Sent], Received],
        rng: np.random.Generator,
        backoff: Backoff = Backoff(),  # frozen
    ) -> None:
        self.succeeded = self.failed = self.replaced = 0
        self.last_error = ""
        self._name = name
        self._call = call
        self._rng = rng
        self._backoff = backoff
        self._changed = threading.Condition()
        self._mailbox: list[Sent] = []
        self._latest: Received | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, value: Sent) -> None:
        """Leave a value to be sent; returns at once. One that still waits is replaced."""
        with self._changed:
            self.replaced += len(self._mailbox)
            self._mailbox[:] = [value]
            self._changed.notify_all()

    def latest(self) -> Received | None:
        """Return the latest answer; None before the first."""
        return self._latest

    def close(self) -> None:
        """Send nothing more; a call under way is waited for."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        failures = 0
        while (value := self._next(failures)) is not None:
            try:
                self._latest = self._call(value[0])
            except Exception as error:
                failures += 1
                self.failed += 1
                self.last_error = f"{error}"
                if not isinstance(error, CaricoError):
                    _log.exception("%s: a call failed", self._name)
                elif failures == 1:
                    _log.warning("%s: %s", self._name, error)
            else:
                if failures:
                    _log.info("%s: answers again after %d failures", self._name, failures)
                failures = 0
                self.succeeded += 1
                self.last_error = ""

    def _next(self, failures: int) -> list[Sent] | None:
        """Wait as long as the back-off asks, then for a value; None when closed."""
        with self._changed:
            if failures:
                self._changed.wait_for(lambda: self._closed, self._backoff.delay_s(failures, self._rng))
            self._changed.wait_for(lambda: self._closed or self._mailbox)
            taken = self._mailbox[:]
            self._mailbox.clear()
            return None if self._closed else taken

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
