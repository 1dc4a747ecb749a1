"""Nodes that all say something once in a period, spread over it, as agents do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from carico.clock import Clock
from carico.errors import RpcError

_log = logging.getLogger(__name__)


async def say_in_turn(
    nodes: Collection[str], say: Callable[[str], Awaitable[object]], what: str, period_s: float, clock: Clock
) -> None:
    """Let every node say something once in a period until this is cancelled; what fails is tried again with the next.

    Parameters
    ----------
    nodes : collection of str
    say : callable
        Says it for a node; may raise RpcError.
    what : str
        What is said, for the log.
    period_s : float
        Seconds.
    clock : Clock
    """
    failing: set[str] = set()

    async def again(node: str, place: int) -> None:
        due = clock.now() + period_s * place / len(nodes)
        while True:
            await asyncio.sleep(due - clock.now())
            try:
                await say(node)
                failing.discard(node)
            except RpcError as error:
                if not failing:  # of a thousand nodes that fail the first tells why
                    _log.warning("%s was not taken in: %s", what, error)
                failing.add(node)
            due = max(due + period_s, clock.now())

    await asyncio.gather(*(again(node, place) for place, node in enumerate(nodes)))
