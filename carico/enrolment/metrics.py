"""The metrics of `carico signer`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class SignerMetrics:
    """Counters; see their texts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "carico_signing_requests",
            "Requests for nodes' certificates: signed, refused, lost to another replica, or error.",
            ["result"],
            registry=registry,
        )
        for result in ("signed", "refused", "lost", "error"):
            self.requests.labels(result)
