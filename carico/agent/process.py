"""The agent as a process: opens what its configuration names, runs the variant's agent, and closes everything."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from carico.agent.agent import Agent
from carico.agent.demand_agent import DemandAgent
from carico.agent.loop import Mailbox
from carico.agent.metrics import AgentMetrics
from carico.agent.sources import NodeSources
from carico.checkpoint import MOST_BYTES_OF_AN_AGENT, continue_from, unwritten, write_checkpoint
from carico.clock import SystemClock
from carico.config import AgentConfig
from carico.demand.settings import DemandVariant
from carico.files import require_writable
from carico.http.expiry import Expiry
from carico.http.health import serve_status
from carico.rpc.background import BackgroundCalls
from carico.rpc.clients import AggregationClient, Client, ReportClient
from carico.rpc.identity import node_name
from carico.rpc.loop import LoopThread
from carico.rpc.tls import ClientTls, require_loopback
from carico.telemetry.pod_groups import PodGroups
from carico.telemetry.sampler import Sampler
from carico.variants import variant_named

_log = logging.getLogger(__name__)

_LEARNED = "what this node has learned"
"""What a checkpoint keeps."""


def run_agent(config: AgentConfig, stop: threading.Event) -> None:
    """Run an agent until `stop` is set.

    Raises
    ------
    CaricoError
        If the configuration is unusable, or telemetry or pods cannot be read.
    """
    clock = SystemClock()
    node = name_of(config, os.environ)
    variant = variant_named(config.variant)
    with ExitStack() as opened:
        calls = _Calls(opened)
        credentials = _credentials(config)
        reports: list[Mailbox] = []
        for address in config.schedulers:
            client = ReportClient(address, credentials)
            reports.append(calls.of_client(f"scheduler {address}", client.report, client))
        checkpoints = None
        if config.checkpoint is not None:
            checkpoints = calls.to_file(Path(config.checkpoint), variant.name, node)
        sources = NodeSources(config, node, clock)
        agent: Agent | DemandAgent
        if isinstance(variant, DemandVariant):
            sized = opened.enter_context(sources.sized_telemetry())
            agent = DemandAgent(
                node,
                Sampler(sized, clock),
                sources.pod_events(named=True),
                clock,
                cpus=sized.cpus,
                memory_bytes=float(sized.read().memory_total),
                variant=variant,
                read_pods=PodGroups(config.pod_events.cgroup_root, clock).read,
                reports=reports,
                checkpoints=checkpoints,
                max_pods=config.max_pods,
            )
        else:
            aggregator = None
            if config.aggregator is not None:
                exchanges = AggregationClient(config.aggregator, credentials, node)
                aggregator = calls.of_client("aggregator", exchanges.exchange, exchanges)
            agent = Agent(
                node,
                Sampler(opened.enter_context(sources.telemetry()), clock),
                sources.pod_events(),
                clock,
                aggregator=aggregator,
                reports=reports,
                checkpoints=checkpoints,
                variant=sources.variant(variant),
                max_pods=config.max_pods,
                knows_uids=config.pod_events.source != "processes",
            )
        opened.callback(agent.pods.close)  # the agent does so when it ends, but not if it never runs
        if config.checkpoint is not None:
            file, most_bytes = Path(config.checkpoint), MOST_BYTES_OF_AN_AGENT
            continue_from(file, variant.name, agent.restore, owner=node, most_bytes=most_bytes)
        registry = CollectorRegistry()
        registry.register(AgentMetrics(agent, calls.by_name))
        opened.enter_context(Expiry(config.tls, registry))
        serving = serve_status(config.status, config.tls, registry, healthy=agent.healthy, ready=agent.ready)
        status = opened.enter_context(serving)
        _log.info("running", extra={"node": node, "status_port": status.port})
        agent.run(stop)


class _Calls:
    """Mailboxes whose values are sent in the background.

    Parameters
    ----------
    opened : ExitStack
        Closes the mailboxes and what they need, in order.
    """

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._loop = opened.enter_context(LoopThread("background"))
        self.by_name: dict[str, BackgroundCalls[Any, Any]] = {}

    def of_client(self, name: str, call: Any, client: Client) -> BackgroundCalls[Any, Any]:
        """Make a mailbox whose values a client sends."""
        self._opened.callback(lambda: self._loop.run(client.close()))
        return self._open(name, call)

    def to_file(self, file: Path, variant: str, node: str) -> BackgroundCalls[Any, Any]:
        """Make a mailbox whose values are written to a file, as checkpoints of a variant and a node."""
        require_writable(file, "checkpoint", f"a restart will forget {_LEARNED}")

        def write(state: Mapping[str, Any]) -> None:
            try:
                write_checkpoint(file, variant, state, owner=node)
            except OSError as error:
                raise OSError(unwritten(file, error, _LEARNED)) from error

        # A separate thread: a slow look-up of a server's name must not delay checkpoints.
        writer = self._opened.enter_context(ThreadPoolExecutor(1, "checkpoint"))
        return self._open("checkpoint", lambda state: asyncio.get_running_loop().run_in_executor(writer, write, state))

    def _open(self, name: str, call: Any) -> BackgroundCalls[Any, Any]:
        self.by_name[name] = self._opened.enter_context(BackgroundCalls(self._loop, name, call, random.Random()))
        return self.by_name[name]


def name_of(config: AgentConfig, environment: Mapping[str, str]) -> str:
    """Return the node's name: the configured one, or the downward API's, or the host's.

    Raises
    ------
    InvalidInput
        If it is not a valid name for a node.
    """
    return node_name(config.node or environment.get("NODE_NAME") or socket.gethostname().lower())


def _credentials(config: AgentConfig) -> ClientTls | None:
    if config.tls is not None:
        return ClientTls(config.tls)
    for address in [config.aggregator, *config.schedulers]:
        if address is not None:
            require_loopback(address.rpartition(":")[0], config.insecure_loopback)
    return None
