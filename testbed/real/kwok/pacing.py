"""Calls a function for every node once in a period, with the nodes spread over the period, as agents are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress

from carico.clock import Clock
from carico.errors import RpcError

_log = logging.getLogger(__name__)


async def say_in_turn(
    nodes: Collection[str],
    say: Callable[[str], Awaitable[object]],
    what: str,
    *,
    period_s: float,
    clock: Clock,
    sooner: Mapping[str, asyncio.Event] | None = None,
) -> None:
    """Call `say` for every node once in a period until cancelled; a failed call is tried again in the next period.

    Parameters
    ----------
    nodes : collection of str
    say : callable
        Called with a node; may raise RpcError.
    what : str
        The name of what is sent, for the log.
    period_s : float
        Seconds.
    clock : Clock
    sooner : mapping, optional
        An event for each node: when it is set, the node says it at once, and once more when its turn comes.
    """
    failing: set[str] = set()

    async def again(node: str, place: int) -> None:
        due = clock.now() + period_s * place / len(nodes)
        while True:
            if sooner is None:
                await asyncio.sleep(due - clock.now())
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(due - clock.now()):
                        await sooner[node].wait()
                sooner[node].clear()
            in_turn = clock.now() >= due
            try:
                await say(node)
                failing.discard(node)
            except RpcError as error:
                if not failing:  # if a thousand nodes fail, one message is enough
                    _log.warning("%s was not accepted: %s", what, error)
                failing.add(node)
            if in_turn:
                due = max(due + period_s, clock.now())

    await asyncio.gather(*(again(node, place) for place, node in enumerate(nodes)))
