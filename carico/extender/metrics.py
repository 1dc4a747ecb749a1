"""The extender's metrics; none has a name that kube-scheduler uses, too, or sums over both would count twice."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from carico.scheduling.node_counts import NodeCounts

_DURATIONS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class ExtenderMetrics:
    """Counters of decisions, reservations, reports, requests, the journal and wake-ups.

    Parameters
    ----------
    registry : prometheus_client.CollectorRegistry
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter(
            "carico_extender_decisions_total",
            "Pods decided on: scheduled, unschedulable, or error for a request that was refused.",
            ["result"],
            registry=registry,
        )
        self.duration_s = Histogram(
            "carico_extender_decision_duration_seconds",
            "How long a decision took, without HTTP.",
            ["result"],
            buckets=_DURATIONS_S,
            registry=registry,
        )
        self.reservations = Gauge(
            "carico_extender_reservations", "Pods that were given a node and are not counted yet.", registry=registry
        )
        self.waiting = Gauge(
            "carico_extender_waiting_pods", "Pods that were refused and not yet given a node.", registry=registry
        )
        self.released = Counter(
            "carico_extender_released_total", "Reservations that ended, by reason.", ["reason"], registry=registry
        )
        self.nodes = Gauge("carico_extender_nodes", "Nodes that have reported a Pod-Capacity.", registry=registry)
        self.stale_nodes = Gauge(
            "carico_extender_stale_nodes", "Nodes whose last report is too old to be believed.", registry=registry
        )
        self.nodes_with_room = Gauge(
            "carico_extender_nodes_with_room",
            "Nodes with room for another pod, for `demand` a very small one, and a report that is believed.",
            registry=registry,
        )
        self.oldest_report_s = Gauge(
            "carico_extender_oldest_report_age_seconds",
            "Age of the oldest last report of a node; a node is forgotten after ten minutes.",
            registry=registry,
        )
        self.outliers = Gauge(
            "carico_extender_outliers",
            "Costs that nodes report far from what the others do: nodes times workloads, for `demand` only.",
            registry=registry,
        )
        self.uncounted = Gauge(
            "carico_extender_uncounted_pods",
            "Pods that have run for a minute and hold their places, because their nodes report but do not count them.",
            registry=registry,
        )
        self.reports = Counter("carico_extender_reports_total", "Reports that came in.", ["result"], registry=registry)
        self.bad_requests = Counter(
            "carico_extender_bad_requests_total",
            "Requests that were refused, by HTTP status.",
            ["status"],
            registry=registry,
        )
        self.wake_ups = Counter(
            "carico_extender_wake_ups_total",
            "Nodes annotated to let refused pods be tried again.",
            ["result"],
            registry=registry,
        )
        self.journal_lost = Counter(
            "carico_extender_journal_lost_total", "Decisions that could not be written.", registry=registry
        )
        self.journal_reopened = Counter(
            "carico_extender_journal_reopened_total",
            "How often the journal's file was opened anew because it had been deleted, moved or replaced.",
            registry=registry,
        )
        # From the first scrape on: otherwise Prometheus would not see the first of each as an increase.
        for metric, results in (
            (self.decisions, ("scheduled", "unschedulable", "error")),
            (self.duration_s, ("scheduled", "unschedulable")),
            (self.reports, ("accepted", "refused")),
            (self.wake_ups, ("done", "failed")),
        ):
            for result in results:
                metric.labels(result)

    def count_nodes(self, counts: NodeCounts) -> None:
        """Note how many nodes report, and how many have room."""
        self.nodes.set(counts.nodes)
        self.stale_nodes.set(counts.stale)
        self.nodes_with_room.set(counts.with_room)
        self.oldest_report_s.set(counts.oldest_s)
