"""An aggregation server's metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class AggregatorMetrics:
    """Counters of exchanges, refusals, merges and reconciling.

    Parameters
    ----------
    registry : prometheus_client.CollectorRegistry
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.exchanges = Counter("carico_aggregator_exchanges", "subspaces taken from nodes", registry=registry)
        self.refused = Counter("carico_aggregator_refused", "messages refused", ["why"], registry=registry)
        self.merged = Counter("carico_aggregator_merged", "subspaces merged into the view", registry=registry)
        self.unreconciled = Counter(
            "carico_aggregator_reconcile_failures", "rounds without an answer from a replica", registry=registry
        )
        self.nodes = Gauge("carico_aggregator_nodes", "nodes that have exchanged lately", registry=registry)
        self.outliers = Gauge(
            "carico_aggregator_outliers",
            "outliers: nodes far from the others in how often they exchange, or in the usage that they show",
            registry=registry,
        )
        self.replicas = Gauge(
            "carico_aggregator_replicas", "other replicas that have reconciled lately", registry=registry
        )
