"""Waits with a deadline; a wait that times out says what it saw last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from carico.errors import KubeError
from testbed.errors import WaitTimedOut

POLL_S = 0.2


def wait_until(
    awaited: str,
    lacking: Callable[[], str],
    timeout_s: float,
    poll_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until nothing is missing any more.

    Parameters
    ----------
    awaited : str
        The awaited state, for messages: "19 nodes are ready".
    lacking : callable
        Returns in words what is still missing, or an empty string. If it raises KubeError because the API server does
        not answer, or refuses for the moment, it is called again.
    timeout_s : float
        `lacking` is called at least once, however short this is.
    poll_s : float, optional
        Seconds between two calls; `POLL_S` by default.
    sleep : callable

    Raises
    ------
    WaitTimedOut
        If it takes longer; the message says what was awaited and what was missing last.

    Examples
    --------
    >>> seen = iter(["1 of 2 nodes", ""])
    >>> wait_until("2 nodes are ready", lambda: next(seen), 5.0, sleep=lambda seconds: None)
    """
    last = ""

    def look() -> str:
        nonlocal last
        try:
            last = lacking()
        except KubeError as error:
            if not error.may_pass:
                raise
            last = str(error)
        return last

    retrying = Retrying(
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(POLL_S if poll_s is None else poll_s),
        retry=retry_if_result(bool),
        sleep=sleep,
    )
    try:
        retrying(look)
    except RetryError:
        raise WaitTimedOut(f"waited {timeout_s:g} s until {awaited}; last seen: {last}") from None


async def wait_until_async(
    awaited: str, lacking: Callable[[], Awaitable[str]], timeout_s: float, poll_s: float = POLL_S
) -> None:
    """Wait as `wait_until` does, beside other tasks; a call of `lacking` that hangs ends at the deadline, too."""
    last = "nothing yet"

    async def look() -> str:
        nonlocal last
        try:
            last = await lacking()
        except KubeError as error:
            if not error.may_pass:
                raise
            last = str(error)
        return last

    try:
        async with asyncio.timeout(timeout_s):
            await AsyncRetrying(wait=wait_fixed(poll_s), retry=retry_if_result(bool))(look)
    except TimeoutError:
        raise WaitTimedOut(f"waited {timeout_s:g} s until {awaited}; last seen: {last}") from None
