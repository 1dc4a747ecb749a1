"""``carico aggregator``: the aggregation server as a process."""

from __future__ import annotations

import argparse
import logging
from contextlib import closing

from carico.clock import SystemClock
from carico.commands import Commands
from carico.commands.arguments import add_config
from carico.commands.stopping import stop_signal

_log = logging.getLogger(__name__)


def add(commands: Commands) -> None:
    """Declare the command."""
    aggregator = commands.add_parser(
        "aggregator",
        help="merge what nodes have learned and tell them all (needs the extra `agent`)",
        description=(
            "Serves until SIGTERM or Ctrl-C. Nodes send their subspaces and are answered with the merged view of the "
            "whole cluster; every connection is mutual TLS. Status and metrics are on a port of their own."
        ),
    )
    add_config(aggregator, "AggregatorConfig")
    aggregator.set_defaults(run=_aggregator, extra="agent")


def _aggregator(options: argparse.Namespace) -> None:
    from carico.aggregation.server import AggregationServer
    from carico.config import AggregatorConfig, read_config
    from carico.http.health import serve_status
    from carico.logs import set_up_logs

    config = read_config(options.config, AggregatorConfig)
    set_up_logs(config.logs.format, config.logs.level)
    server = AggregationServer(config, SystemClock())
    with stop_signal() as stop, closing(server):
        server.start()
        with serve_status(config.status, config.tls, server.registry, server.healthy, server.ready) as status:
            _log.info("serving", extra={"host": config.host, "port": server.port, "status_port": status.port})
            stop.wait()
    _log.info("stopped")
