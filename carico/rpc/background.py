"""Calls in the background: a loop that must not wait submits values to be sent, and reads the latest answer.

Every destination has a mailbox, which holds the newest value only, because older values are out of date. All mailboxes
of a process share a thread.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from carico.backoff import Backoff
from carico.errors import CaricoError
from carico.rpc.loop import LoopThread

_log = logging.getLogger(__name__)

Sent = TypeVar("Sent")
Received = TypeVar("Received")
BACKOFF = Backoff(first_s=0.5, longest_s=30.0)
"""The default waits after failed calls."""


class BackgroundCalls(Generic[Sent, Received]):
    """Makes calls to one destination until it is closed.

    Parameters
    ----------
    loop : LoopThread
        Makes the calls.
    name : str
        The destination's name, for logs.
    call : callable
        A coroutine function that takes a submitted value and returns the answer. An exception counts as a failure and
        delays the next call.
    rng : random.Random
        For the jitter; used by the loop's thread alone.
    backoff : Backoff, optional

    Attributes
    ----------
    succeeded, failed, replaced : int
        Calls that succeeded, calls that failed, and values that were replaced by a newer one before they were sent.
    """

    def __init__(
        self,
        loop: LoopThread,
        name: str,
        call: Callable[[Sent], Awaitable[Received]],
        rng: random.Random,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.succeeded = self.failed = self.replaced = 0
        self._loop = loop
        self._name = name
        self._call = call
        self._rng = rng
        self._backoff = backoff
        self._mailbox: list[Sent] = []
        self._latest: Received | None = None
        self._changed = asyncio.Event()
        """A value is in the mailbox, or the mailbox is being closed."""
        self._closing = asyncio.Event()
        self._work_done = loop.start(self._work())

    def submit(self, value: Sent) -> None:
        """Put a value in to be sent; returns at once. A value that still waits is replaced."""
        self._loop.call_soon(self._put, value)

    def latest(self) -> Received | None:
        """Return the latest answer; None before the first."""
        return self._latest

    def close(self) -> None:
        """Send the waiting value, unless a failure delays the next call, and return when that is done."""
        self._loop.call_soon(self._close)
        self._work_done.result()

    def _put(self, value: Sent) -> None:
        self.replaced += len(self._mailbox)
        self._mailbox[:] = [value]
        self._changed.set()

    def _close(self) -> None:
        self._closing.set()
        self._changed.set()

    async def _work(self) -> None:
        failures = 0
        while True:
            await self._changed.wait()
            if not self._mailbox:
                return
            value = self._mailbox.pop()
            if not self._closing.is_set():
                self._changed.clear()
            try:
                self._latest = await self._call(value)
            except Exception as error:
                failures += 1
                self._note(error, failures)
                if await self._closed_within(self._backoff.wait_s(failures, self._rng)):
                    return
            else:
                if failures:
                    _log.info("%s: answers again after %d failures", self._name, failures)
                failures = 0
                self.succeeded += 1

    def _note(self, error: Exception, failures: int) -> None:
        self.failed += 1
        if not isinstance(error, (CaricoError, OSError)):  # a bug in CARICO
            _log.error("%s: a call failed", self._name, exc_info=error)
        elif failures == 1:
            _log.warning("%s: %s", self._name, error)

    async def _closed_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
