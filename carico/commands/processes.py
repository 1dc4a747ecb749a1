"""``carico agent``, ``aggregator``, ``extender`` and ``signer``: CARICO's processes, run from a configuration file.

Each sets up its logs, runs until SIGTERM or Ctrl-C, shuts down in order and exits with code 0.
"""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from carico.commands import Commands
from carico.commands.stopping import stop_signal

if TYPE_CHECKING:
    from carico.config import AgentConfig, AggregatorConfig, ExtenderConfig, SignerConfig

_log = logging.getLogger(__name__)

_Config = TypeVar("_Config", "AgentConfig", "AggregatorConfig", "ExtenderConfig", "SignerConfig")


def add(commands: Commands) -> None:
    """Declare the commands."""
    agent = commands.add_parser(
        "agent",
        help="learn how many more pods this node can take, and report it once a second (needs the extra `agent`)",
        description=(
            "Samples this node ten times a second, learns what its pods take, reports Pod-Capacity once a second to "
            "every scheduler, and exchanges what it has learned with the aggregator. It goes on alone while no server "
            "answers. Status and metrics have a separate port. Runs until SIGTERM or Ctrl-C."
        ),
    )
    _add_config(agent, "AgentConfig")
    agent.set_defaults(run=_agent, extra="agent")
    aggregator = commands.add_parser(
        "aggregator",
        help="merge what nodes have learned and return it to all of them (needs the extra `agent`)",
        description=(
            "Serves until SIGTERM or Ctrl-C. Nodes send their subspaces and receive the merged view of the whole "
            "cluster; every connection is mutual TLS. Status and metrics have a separate port."
        ),
    )
    _add_config(aggregator, "AggregatorConfig")
    aggregator.set_defaults(run=_aggregator, extra="agent")
    extender = commands.add_parser(
        "extender",
        help="decide for kube-scheduler where pods go (needs the extra `scheduler`)",
        description=(
            "Serves until SIGTERM or Ctrl-C. Agents report how much room their nodes have, kube-scheduler asks over "
            "HTTPS (POST /filter), and pods that were given a node are watched until they run. Status and metrics have "
            "a separate port."
        ),
    )
    _add_config(extender, "ExtenderConfig")
    extender.set_defaults(run=_extender)
    signer = commands.add_parser(
        "signer",
        help="sign the certificates of nodes (needs the extra `scheduler`)",
        description=(
            "Follows the CertificateSigningRequests to carico.dev/node. Signs those that an agent has made with the "
            "token of its pod, for the node that the API server says this pod is on, and refuses all others. Several "
            "may run. Status and metrics have a separate port. Runs until SIGTERM or Ctrl-C."
        ),
    )
    _add_config(signer, "SignerConfig")
    signer.set_defaults(run=_signer)


def _add_config(parser: argparse.ArgumentParser, declared: str) -> None:
    fields = f"YAML; all fields: python -m pydoc carico.config.{declared}"
    parser.add_argument("--config", metavar="FILE", type=Path, required=True, help=fields)


def _agent(options: argparse.Namespace) -> None:
    from carico.agent.process import run_agent
    from carico.config import AgentConfig

    _run(options.config, AgentConfig, run_agent)


def _aggregator(options: argparse.Namespace) -> None:
    from carico.aggregation.process import run_aggregator
    from carico.config import AggregatorConfig

    _run(options.config, AggregatorConfig, run_aggregator)


def _extender(options: argparse.Namespace) -> None:
    from carico.config import ExtenderConfig
    from carico.extender.process import run_extender

    _run(options.config, ExtenderConfig, run_extender)


def _signer(options: argparse.Namespace) -> None:
    from carico.config import SignerConfig
    from carico.enrolment.process import run_signer

    _run(options.config, SignerConfig, run_signer)


def _run(file: Path, kind: type[_Config], run: Callable[[_Config, threading.Event], None]) -> None:
    from carico.config import read_config
    from carico.logs import set_up_logs

    config = read_config(file, kind)
    set_up_logs(config.logs.format, config.logs.level)
    with stop_signal() as stop:
        run(config, stop)
    _log.info("stopped")
