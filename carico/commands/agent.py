"""``carico agent``: the agent of a node as a process."""

from __future__ import annotations

import argparse

from carico.commands import Commands
from carico.commands.arguments import add_config
from carico.commands.stopping import stop_signal


def add(commands: Commands) -> None:
    """Declare the command."""
    agent = commands.add_parser(
        "agent",
        help="learn how many more pods this node can take, and say so once a second (needs the extra `agent`)",
        description=(
            "Samples this node ten times a second, learns what its pods take, reports Pod-Capacity once a second to "
            "every scheduler, and exchanges what it has learned with the aggregator. It goes on by itself while "
            "nobody answers. Status and metrics are on a port of their own. Runs until SIGTERM or Ctrl-C."
        ),
    )
    add_config(agent, "AgentConfig")
    agent.set_defaults(run=_agent, extra="agent")


def _agent(options: argparse.Namespace) -> None:
    from carico.agent.process import run_agent
    from carico.config import AgentConfig, read_config
    from carico.logs import set_up_logs

    config = read_config(options.config, AgentConfig)
    set_up_logs(config.logs.format, config.logs.level)
    with stop_signal() as stop:
        run_agent(config, stop)
