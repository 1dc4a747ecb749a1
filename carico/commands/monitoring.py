"""``carico monitoring``: alerts and a dashboard, printed; needs the extra `scheduler`."""

from __future__ import annotations

import argparse
import sys

from carico.commands import Commands


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "monitoring",
        help="print alert rules for Prometheus, and a dashboard for Grafana",
        description=(
            "Prints what Prometheus and Grafana need: `alerts` is a file for rule_files, `dashboard` JSON to import; "
            "`operator` prints both as objects for `kubectl apply -f -`, with a PodMonitor, for clusters with the "
            "Prometheus operator."
        ),
    )
    parser.add_argument("what", choices=["alerts", "dashboard", "operator"], help="what to print")
    parser.add_argument("--namespace", metavar="NS", default="carico", help="for `operator` (default: carico)")
    parser.set_defaults(run=_monitoring)


def _monitoring(options: argparse.Namespace) -> None:
    from carico.deployment.manifests import as_yaml
    from carico.deployment.monitoring import alerts, dashboard, operator_objects

    if options.what == "operator":
        sys.stdout.write(as_yaml(operator_objects(options.namespace)))
    else:
        sys.stdout.write(alerts() if options.what == "alerts" else dashboard())
