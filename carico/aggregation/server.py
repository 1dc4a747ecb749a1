"""The aggregation server: enqueues the subspace of each node and answers with the latest view at once (thesis §4.3).

A separate thread merges the subspaces that have arrived. Each replica sends the others what it has learned from its own
nodes, and answers with the average of all replicas, weighted by their numbers of nodes: no node counts twice, and the
view is the one that a single server of all nodes would have.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from carico.aggregation.metrics import AggregatorMetrics
from carico.aggregation.outliers import ExchangeOutliers
from carico.clock import Clock
from carico.config import AggregatorConfig
from carico.errors import CaricoError, InvalidInput
from carico.logs import FewLines
from carico.model.aggregator import MERGE_PERIOD_S, Aggregator, ReplicaView, pooled
from carico.model.subspace import Subspace
from carico.outliers import MOST_SHOWN, Outlier
from carico.rpc.clients import ReplicaClient
from carico.rpc.identity import AGGREGATOR, NODE
from carico.rpc.messages import read_exchange, read_view, write_reply, write_view
from carico.rpc.server import Answer, Caller, RpcServer
from carico.rpc.tls import ClientTls

_log = logging.getLogger(__name__)

_MAX_REPLICAS = 64
_LOOK_AGAIN_S = 0.5
"""How often is looked whether the period of a node whose subspace waits is over."""
_KEPT_ROUNDS = 5
"""The view of a replica that has not reconciled for this many rounds no longer counts."""


class AggregationServer:
    """Serves until it is closed: one thread answers and reconciles, another merges.

    Parameters
    ----------
    config : AggregatorConfig
    clock : Clock
        The clock of the time-outs of nodes and replicas.
    metrics : AggregatorMetrics
    rng : numpy.random.Generator, optional
        Makes this replica's name and the jitter of its rounds; seeded by the system by default.
    period_s : float, optional
        A node's subspace is merged once in this time at most; by default, in the time in which every agent exchanges.

    Attributes
    ----------
    port : int
        The port that is listened on.
    replica_port : int
        The port that is listened on for other replicas; it may be the same.

    Raises
    ------
    InvalidConfig
        If the TLS files cannot be used, plain text is not allowed on the host, or the address cannot be served.
    """

    def __init__(
        self,
        config: AggregatorConfig,
        clock: Clock,
        metrics: AggregatorMetrics,
        rng: np.random.Generator | None = None,
        period_s: float = MERGE_PERIOD_S,
    ) -> None:
        rng = rng or np.random.default_rng()
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._name = f"replica-{rng.integers(2**63):x}"
        self._period_s = period_s
        self._aggregator = Aggregator(config.resources, config.rank, period_s=period_s)
        self._lock = threading.Lock()
        """Guards the aggregator's queue and nodes, what was heard, the outliers, and the other replicas' views; never
        held during a decomposition."""
        self._heard: OrderedDict[str, float] = OrderedDict()
        """When each node last exchanged, the latest last."""
        self._outliers = ExchangeOutliers()
        self._told = FewLines(_log, logging.WARNING, "a node is far from the others")
        self._replicas: dict[str, tuple[ReplicaView, float]] = {}
        """The views of other replicas, and when they arrived."""
        self._answer: bytes | None = None
        self._arrived = threading.Event()
        self._closing = threading.Event()
        peers = self._peers()
        for_replicas: dict[str, Answer] = {"Reconcile": self._reconcile}
        apart = config.replica_port is not None
        self._server = self._serve(
            config.port,
            unary={} if apart else for_replicas,
            streams={"ExchangeStream": self._exchange},
            for_nodes=True,
        )
        self._replica_server = self._server
        if config.replica_port is not None:
            try:
                self._replica_server = self._serve(config.replica_port, unary=for_replicas, streams={})
            except BaseException:
                self._server.close()
                raise
        self.port, self.replica_port = self._server.port, self._replica_server.port
        self._merging = threading.Thread(target=self._merge_forever, name="merge", daemon=True)
        self._merging.start()
        self._reconciling = [
            self._server.loop.start(self._reconcile_forever(peer, own_rng))
            for peer, own_rng in zip(peers, rng.spawn(len(peers)), strict=True)
        ]

    @property
    def view(self) -> Subspace | None:
        """The answer to nodes: the average of this replica's view and the others'; None before the first merge."""
        with self._lock:
            views = [view for view, _ in self._replicas.values()]
        return pooled([self._own_view(), *views], self._config.rank)

    def outliers(self) -> list[Outlier]:
        """Return the nodes that are far from the others."""
        with self._lock:
            return self._outliers.present[:MOST_SHOWN]

    def healthy(self) -> str:
        """Return why the server cannot go on; an empty text means that it can."""
        if not self._merging.is_alive():
            return "the merge thread has ended"
        if not (self._server.loop.is_alive() and self._replica_server.loop.is_alive()):
            return "the thread that answers calls has ended"
        return "reconciling has ended" if any(peer.done() for peer in self._reconciling) else ""

    def ready(self) -> str:
        """Return why nodes are not answered; an empty text means that they are."""
        return "not serving" if self._closing.is_set() else ""

    def close(self) -> None:
        """Finish the calls in progress and stop serving; closing twice is fine."""
        self._closing.set()
        self._arrived.set()
        for server in dict.fromkeys((self._replica_server, self._server)):
            server.close()
        self._merging.join()

    def _serve(self, port: int, for_nodes: bool = False, **methods: Any) -> RpcServer:
        return RpcServer(
            "carico.v1.Aggregation",
            tls=self._config.tls,
            insecure_loopback=self._config.insecure_loopback,
            host=self._config.host,
            port=port,
            refused=lambda why: self._metrics.refused.labels(why).inc(),
            for_nodes=for_nodes,
            **methods,
        )

    def _exchange(self, data: bytes, caller: Caller) -> bytes:
        node, subspace = read_exchange(data, self._config.resources)
        caller.must_be(NODE + node)
        with self._lock:
            if node not in self._heard and len(self._heard) >= self._config.max_nodes:
                raise InvalidInput(f"{node}: {len(self._heard)} nodes are known already; raise `max_nodes`")
            self._aggregator.exchange(node, subspace)
            self._heard[node] = self._clock.now()
            self._heard.move_to_end(node)
            self._outliers.note(node, subspace)
        self._metrics.exchanges.inc()
        self._arrived.set()
        return self._answer or write_reply(subspace)

    def _reconcile(self, data: bytes, caller: Caller) -> bytes:
        caller.must_be(AGGREGATOR)
        self._take_over(read_view(data, self._config.resources))
        return write_view(self._own_view())

    def _take_over(self, view: ReplicaView, instead_of: str = "") -> None:
        """Keep the view of another replica, and forget the view of the replica that it has replaced."""
        if view.replica == self._name:
            return
        with self._lock:
            if instead_of != view.replica:
                self._replicas.pop(instead_of, None)
            if view.replica not in self._replicas and len(self._replicas) >= _MAX_REPLICAS:
                raise InvalidInput(f"{view.replica}: {_MAX_REPLICAS} replicas are known already")
            self._replicas[view.replica] = (view, self._clock.now())
        self._arrived.set()

    def _own_view(self) -> ReplicaView:
        view, nodes = self._aggregator.view, self._aggregator.nodes
        return ReplicaView(self._name, nodes if view is not None else 0, view)

    def _merge_forever(self) -> None:
        while not self._closing.is_set():
            # A subspace that arrived within its node's period is merged after it.
            waiting_s = min(self._period_s, _LOOK_AGAIN_S)
            self._arrived.wait(waiting_s if self._aggregator.waiting else self._config.node_timeout_s / 2)
            # Subspaces that arrive in the meantime are merged in the same round, or start the next one.
            self._closing.wait(self._config.merge_every_s)
            self._arrived.clear()
            self._merge()

    def _merge(self) -> None:
        """Forget silent nodes and replicas, merge the waiting subspaces, and prepare the answer."""
        now = self._clock.now()
        with self._lock:
            while self._heard and next(iter(self._heard.values())) <= now - self._config.node_timeout_s:
                silent, _ = self._heard.popitem(last=False)
                self._aggregator.forget(silent)
                self._outliers.forget(silent)
            kept_s = _KEPT_ROUNDS * self._config.reconcile_every_s
            self._replicas = {name: (view, at) for name, (view, at) in self._replicas.items() if at > now - kept_s}
            waiting = self._aggregator.take_waiting(now)
            new, outliers = self._outliers.look(now), len(self._outliers.present)
        for outlier in new:
            self._told.add(str(outlier))
        self._metrics.outliers.set(outliers)
        self._aggregator.merge(waiting)
        self._metrics.merged.inc(len(waiting))
        self._metrics.nodes.set(self._aggregator.nodes)
        self._metrics.replicas.set(len(self._replicas))
        view = self.view
        if view is not None:
            self._answer = write_reply(view)

    def _peers(self) -> list[ReplicaClient]:
        config = self._config
        credentials = None if config.tls is None else ClientTls(config.tls)
        return [ReplicaClient(peer, credentials, deadline_s=config.reconcile_every_s) for peer in config.peers]

    async def _reconcile_forever(self, peer: ReplicaClient, rng: np.random.Generator) -> None:
        reachable, replica = True, ""
        async with peer:
            while True:
                # Jitter: replicas that start together must not all call at the same time.
                await asyncio.sleep(self._config.reconcile_every_s * rng.uniform(0.5, 1.5))
                try:
                    view = await peer.reconcile(self._own_view(), self._config.resources)
                    # A replica with a new name was restarted, and its nodes are coming back to it: they count once.
                    self._take_over(view, instead_of=replica)
                    reachable, replica = True, view.replica
                except CaricoError as error:
                    self._metrics.unreconciled.inc()
                    if reachable:
                        _log.warning("a replica does not reconcile: %s", error)
                    reachable = False
