"""The aggregation server as a process: opens what its configuration names, serves, and closes everything."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import msgspec
from prometheus_client import CollectorRegistry

from carico.aggregation.metrics import AggregatorMetrics
from carico.aggregation.server import AggregationServer
from carico.clock import SystemClock
from carico.config import AggregatorConfig
from carico.http.expiry import Expiry
from carico.http.health import serve_status

_log = logging.getLogger(__name__)


def run_aggregator(config: AggregatorConfig, stop: threading.Event) -> None:
    """Run an aggregation server until `stop` is set.

    Raises
    ------
    InvalidConfig
        If the configuration is unusable.
    """
    registry = CollectorRegistry()
    with (
        closing(AggregationServer(config, SystemClock(), AggregatorMetrics(registry))) as server,
        Expiry(config.tls, registry),
        serve_status(
            config.status,
            config.tls,
            registry,
            healthy=server.healthy,
            ready=server.ready,
            pages={
                "/outliers": lambda: msgspec.json.encode({"outliers": [each._asdict() for each in server.outliers()]})
            },
        ) as status,
    ):
        serving = {
            "host": config.host,
            "port": server.port,
            "replica_port": server.replica_port,
            "status_port": status.port,
        }
        _log.info("serving", extra=serving)
        stop.wait()
