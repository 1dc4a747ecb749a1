"""The aggregation server: a call enqueues a subspace and is answered with the latest view at once (thesis §4.3).

A merge thread takes what has arrived and merges it, off the calls' path. Replicas tell each other what they have
learned from their own nodes; each answers with the average of all, by nodes heard of, so no node counts twice and the
view is the one that a single server of all nodes would have.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from concurrent.futures import Future

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge

from carico.clock import Clock
from carico.config import AggregatorConfig
from carico.errors import CaricoError, InvalidInput
from carico.model.aggregator import Aggregator, ReplicaView, pooled
from carico.model.subspace import Subspace
from carico.rpc.clients import ReplicaClient
from carico.rpc.identity import AGGREGATOR, NODE
from carico.rpc.messages import read_exchange, read_view, write_reply, write_view
from carico.rpc.server import Caller, RpcServer
from carico.rpc.tls import ClientTls

_log = logging.getLogger(__name__)

_MAX_REPLICAS = 64
_KEPT_ROUNDS = 5
"""So many rounds of reconciling may pass without a word from a replica before its view counts no more."""


class AggregationServer:
    """Serves from `start` until `close`.

    Parameters
    ----------
    config : AggregatorConfig
    clock : Clock
        Of the time-outs of nodes and replicas.
    rng : numpy.random.Generator, optional
        Names this replica and jitters its rounds; from the system's entropy by default.

    Attributes
    ----------
    registry : prometheus_client.CollectorRegistry
        The metrics.
    """

    def __init__(self, config: AggregatorConfig, clock: Clock, rng: np.random.Generator | None = None) -> None:
        self._config = config
        self._clock = clock
        self._rng = rng or np.random.default_rng()
        self._name = f"replica-{self._rng.integers(2**63):x}"
        self._aggregator = Aggregator(config.resources, config.rank)
        self._lock = threading.Lock()
        """Of the aggregator's queue and nodes, and of the two below; never held while something is decomposed."""
        self._heard: OrderedDict[str, float] = OrderedDict()
        self._replicas: dict[str, tuple[ReplicaView, float]] = {}
        self._answer: bytes | None = None
        self._arrived = threading.Event()
        self._closing = threading.Event()
        self._server: RpcServer | None = None
        self._merging: threading.Thread | None = None
        self._reconciling: list[Future[None]] = []
        self._declare_metrics()

    @property
    def port(self) -> int:
        """The port that is listened on.

        Raises
        ------
        InvalidInput
            If the server was not started.
        """
        if self._server is None:
            raise InvalidInput("the server has no port: call `start` first")
        return self._server.port

    @property
    def view(self) -> Subspace | None:
        """What nodes are answered: this replica's view and the others', averaged; None before the first merge."""
        with self._lock:
            views = [view for view, _ in self._replicas.values()]
        return pooled([self._own_view(), *views], self._config.rank)

    def start(self) -> None:
        """Serve and reconcile in one thread, merge in another.

        Raises
        ------
        InvalidConfig
            If the TLS files are no good, plain text is not allowed on the host, or nothing can be served there.
        """
        config = self._config
        peers = self._peers()
        self._server = RpcServer(
            "carico.v1.Aggregation",
            unary={"Reconcile": self._reconcile},
            streams={"ExchangeStream": self._exchange},
            tls=config.tls,
            insecure_loopback=config.insecure_loopback,
            host=config.host,
            port=config.port,
            refused=lambda why: self._refused.labels(why).inc(),
        )
        self._merging = threading.Thread(target=self._merge_forever, name="merge", daemon=True)
        self._merging.start()
        self._reconciling = [
            self._server.loop.start(self._reconcile_forever(peer, rng))
            for peer, rng in zip(peers, self._rng.spawn(len(peers)), strict=True)
        ]

    def healthy(self) -> str:
        """Return why the server cannot go on; empty if it can."""
        if self._merging is not None and not self._merging.is_alive():
            return "the merge thread has ended"
        if self._server is not None and not self._server.loop.is_alive():
            return "the thread that answers calls has ended"
        return "reconciling has ended" if any(peer.done() for peer in self._reconciling) else ""

    def ready(self) -> str:
        """Return why calls are not answered; empty if they are."""
        return "not serving" if self._server is None or self._closing.is_set() else ""

    def close(self) -> None:
        """Answer the calls under way, then serve no more; a second time does nothing."""
        self._closing.set()
        self._arrived.set()
        if self._server is not None:
            self._server.close()
        self._reconciling = []
        if self._merging is not None:
            self._merging.join()
            self._merging = None

    def _exchange(self, data: bytes, caller: Caller) -> bytes:
        node, subspace = read_exchange(data, self._config.resources)
        caller.must_be(NODE + node)
        with self._lock:
            if node not in self._heard and len(self._heard) >= self._config.max_nodes:
                raise InvalidInput(f"{node}: {len(self._heard)} nodes are known already; raise `max_nodes`")
            self._aggregator.exchange(node, subspace)
            self._heard[node] = self._clock.now()
            self._heard.move_to_end(node)
        self._exchanges.inc()
        self._arrived.set()
        return self._answer or write_reply(subspace)

    def _reconcile(self, data: bytes, caller: Caller) -> bytes:
        caller.must_be(AGGREGATOR)
        self._take_over(read_view(data, self._config.resources))
        return write_view(self._own_view())

    def _take_over(self, view: ReplicaView, instead_of: str = "") -> None:
        """Remember what another replica has learned, and nothing more of the one whose place it has taken."""
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
            self._arrived.wait(self._config.node_timeout_s / 2)
            # What comes meanwhile is merged in the same go, or wakes the next one.
            self._closing.wait(self._config.merge_every_s)
            self._arrived.clear()
            self._merge()

    def _merge(self) -> None:
        """Forget who is silent, merge what waits and prepare the answer."""
        now = self._clock.now()
        with self._lock:
            while self._heard and next(iter(self._heard.values())) <= now - self._config.node_timeout_s:
                self._aggregator.forget(self._heard.popitem(last=False)[0])
            kept_s = _KEPT_ROUNDS * self._config.reconcile_every_s
            self._replicas = {name: (view, at) for name, (view, at) in self._replicas.items() if at > now - kept_s}
            waiting = self._aggregator.take_waiting()
        self._aggregator.merge_at_once(waiting)
        self._merged.inc(len(waiting))
        self._nodes.set(self._aggregator.nodes)
        self._known_replicas.set(len(self._replicas))
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
                # Replicas that start together shall not all call at the same time.
                await asyncio.sleep(self._config.reconcile_every_s * rng.uniform(0.5, 1.5))
                try:
                    view = await peer.reconcile(self._own_view(), self._config.resources)
                    # Under another name it was restarted, and its nodes are coming back to it: they count once.
                    self._take_over(view, instead_of=replica)
                    reachable, replica = True, view.replica
                except CaricoError as error:
                    self._unreconciled.inc()
                    if reachable:
                        _log.warning("a replica does not reconcile: %s", error)
                    reachable = False

    def _declare_metrics(self) -> None:
        self.registry = CollectorRegistry()
        name = "carico_aggregator"
        self._exchanges = Counter(f"{name}_exchanges", "subspaces taken from nodes", registry=self.registry)
        self._refused = Counter(f"{name}_refused", "messages refused", ["why"], registry=self.registry)
        self._merged = Counter(f"{name}_merged", "subspaces merged into the view", registry=self.registry)
        self._unreconciled = Counter(
            f"{name}_reconcile_failures", "rounds without an answer from a replica", registry=self.registry
        )
        self._nodes = Gauge(f"{name}_nodes", "nodes heard of lately", registry=self.registry)
        self._known_replicas = Gauge(f"{name}_replicas", "other replicas heard of lately", registry=self.registry)
