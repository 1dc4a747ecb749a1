"""``carico extender``: the scheduler's extender as a process."""

from __future__ import annotations

import argparse
import logging
import sys

from carico.clock import SystemClock
from carico.commands import Commands
from carico.commands.arguments import add_config
from carico.commands.stopping import stop_signal

_log = logging.getLogger(__name__)


def add(commands: Commands) -> None:
    """Declare the command."""
    extender = commands.add_parser(
        "extender",
        help="decide for kube-scheduler where pods go (needs the extra `scheduler`)",
        description=(
            "Serves until SIGTERM or Ctrl-C. Agents report what their nodes have room for, kube-scheduler asks over "
            "HTTPS (POST /filter), and pods that were given a node are watched until they run. Status and metrics are "
            "on a port of their own."
        ),
    )
    add_config(extender, "ExtenderConfig")
    extender.set_defaults(run=_extender)


def _extender(options: argparse.Namespace) -> None:
    import random

    from carico.config import ExtenderConfig, read_config
    from carico.extender.process import ExtenderProcess, kube_api
    from carico.logs import set_up_logs

    config = read_config(options.config, ExtenderConfig)
    set_up_logs(config.logs.format, config.logs.level)
    sys.setswitchinterval(0.0005)  # a decision must not wait 5 ms for the thread that writes the journal
    process = ExtenderProcess(config, SystemClock(), random.Random(), kube_api(config))
    with stop_signal() as stop:
        process.start()
        try:
            ports = {"port": process.port, "report_port": process.report_port, "status_port": process.status_port}
            _log.info("serving", extra={"host": config.host, "report_host": config.report_host} | ports)
            stop.wait()
        finally:
            process.close()
        _log.info("stopped")
