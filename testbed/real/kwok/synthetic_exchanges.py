"""Exchanges of subspaces for nodes that have no agents, over the real Aggregation service; the telemetry is random.

They influence no placement: answers are checked as agents check them, and then discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from carico.clock import Clock
from carico.config import TlsFiles
from carico.model.subspace import Subspace
from carico.rpc.clients import AggregationClient
from carico.rpc.tls import ClientTls
from testbed.real.kwok.pacing import say_in_turn

DEADLINE_S = 5.0
"""The longest wait for an answer; see `synthetic_reports.DEADLINE_S`."""
_RESOURCES, _SAMPLES = 2, 10


class SyntheticExchanges:
    """Exchanges a subspace for each node.

    Parameters
    ----------
    target : str
        host:port of the aggregation server.
    files : callable
        Returns the certificate, key and CA of a node.
    nodes : sequence of str
    clock : Clock
    rng : numpy.random.Generator
        Draws the telemetry.
    """

    def __init__(
        self,
        target: str,
        files: Callable[[str], TlsFiles],
        nodes: Sequence[str],
        clock: Clock,
        rng: np.random.Generator,
    ) -> None:
        self._clock = clock
        self._clients = {node: AggregationClient(target, ClientTls(files(node)), node, DEADLINE_S) for node in nodes}
        self._own = {node: Subspace.from_batch(rng.random((_RESOURCES, _SAMPLES))) for node in nodes}

    async def exchange(self, node: str) -> Subspace:
        """Exchange a node's subspace now and return the answer; raises as `AggregationClient.exchange` does."""
        return await self._clients[node].exchange(self._own[node])

    async def run(self, period_s: float) -> None:
        """Exchange for every node once in a period, seconds, until this is cancelled."""
        try:
            await say_in_turn(self._own, self.exchange, "a subspace", period_s=period_s, clock=self._clock)
        finally:
            for client in self._clients.values():
                await client.close()
