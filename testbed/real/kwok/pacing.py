"""Calls a function for every node once in a period, with the nodes spread over the period, as agents are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress

from carico.clock import Clock
from carico.errors import RpcError

_log = logging.getLogger(__name__)


async def call_in_turn(
    nodes: Collection[str],
    report: Callable[[str], Awaitable[object]],
    *,
    period_s: float,
    clock: Clock,
    at_once: Mapping[str, asyncio.Event],
) -> None:
    """Call `report` for every node once in a period until cancelled; a failed call is repeated in the next period.

    Parameters
    ----------
    nodes : collection of str
    report : callable
        Called with a node; may raise RpcError.
    period_s : float
        Seconds.
    clock : Clock
    at_once : mapping
        An event for each node: when it is set, the node reports at once, and once more when its turn comes.
    """
    failing: set[str] = set()

    async def repeat(node: str, place: int) -> None:
        due = clock.now() + period_s * place / len(nodes)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(due - clock.now()):
                    await at_once[node].wait()
            at_once[node].clear()
            in_turn = clock.now() >= due
            try:
                await report(node)
                failing.discard(node)
            except RpcError as error:
                if not failing:  # if a thousand nodes fail, one message is enough
                    _log.warning("a report was not accepted: %s", error)
                failing.add(node)
            if in_turn:
                due = max(due + period_s, clock.now())

    await asyncio.gather(*(repeat(node, place) for place, node in enumerate(nodes)))
