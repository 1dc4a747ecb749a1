"""The agent as a process: opens what its configuration names, runs an `Agent` with it, and closes it again."""

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
from itertools import chain, count
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from carico.agent.agent import Agent
from carico.agent.checkpoint import read_checkpoint, write_checkpoint
from carico.agent.metrics import AgentMetrics
from carico.agent.sources import NodeSources
from carico.clock import SystemClock
from carico.config import AgentConfig
from carico.errors import InvalidState
from carico.files import require_writable
from carico.http.health import serve_status
from carico.model.variants import variant_named
from carico.rpc.background import BackgroundCalls
from carico.rpc.clients import AggregationClient, Client, ReportClient
from carico.rpc.identity import node_name
from carico.rpc.loop import LoopThread
from carico.rpc.tls import ClientTls, require_loopback
from carico.telemetry.sampler import Sampler

_log = logging.getLogger(__name__)


def run_agent(config: AgentConfig, stop: threading.Event) -> None:
    """Run an agent until `stop` is set.

    Raises
    ------
    CaricoError
        If the configuration cannot work, or telemetry or pods cannot be read.
    """
    clock = SystemClock()
    node = name_of(config, os.environ)
    variant = variant_named(config.variant)
    with ExitStack() as opened:
        calls: dict[str, BackgroundCalls[Any, Any]] = {}
        loop = opened.enter_context(LoopThread("background"))

        def background(name: str, call: Any, client: Client | None = None) -> BackgroundCalls[Any, Any]:
            if client is not None:
                opened.callback(lambda: loop.run(client.close()))
            calls[name] = opened.enter_context(BackgroundCalls(loop, name, call, random.Random()))
            return calls[name]

        credentials = _credentials(config)
        aggregator = None
        if config.aggregator is not None:
            exchanges = AggregationClient(config.aggregator, credentials, node)
            aggregator = background("aggregator", exchanges.exchange, exchanges)
        reports = []
        for address in config.schedulers:
            client = ReportClient(address, credentials)
            reports.append(background(f"scheduler {address}", client.report, client))
        checkpoints = None
        if config.checkpoint is not None:
            file = Path(config.checkpoint)
            require_writable(file, "checkpoint")
            # A thread of its own: a slow look-up of a server's name must not hold up checkpoints.
            writer = opened.enter_context(ThreadPoolExecutor(1, "checkpoint"))
            checkpoints = background(
                "checkpoint",
                lambda state: asyncio.get_running_loop().run_in_executor(
                    writer, write_checkpoint, file, variant.name, state
                ),
            )
        sources = NodeSources(config, node, clock)
        variant = sources.variant(variant)
        telemetry, pods = opened.enter_context(sources.telemetry()), sources.pod_events()
        opened.callback(pods.close)  # the agent does so when it ends, but not if it never runs
        agent = Agent(
            node,
            Sampler(telemetry, clock),
            pods,
            clock,
            aggregator=aggregator,
            reports=reports,
            checkpoints=checkpoints,
            variant=variant,
            max_pods=config.max_pods,
        )
        _continue(agent, config, variant.name, clock.now())
        registry = CollectorRegistry()
        registry.register(AgentMetrics(agent, calls))
        serving = serve_status(config.status, config.tls, registry, healthy=agent.healthy, ready=agent.ready)
        status = opened.enter_context(serving)
        _log.info("running", extra={"node": node, "status_port": status.port})
        agent.run(stop)


def name_of(config: AgentConfig, environment: Mapping[str, str]) -> str:
    """Return the node's name: the configured one, the one of the downward API, or the host's.

    Raises
    ------
    InvalidInput
        If it is not a valid name of a node.
    """
    return node_name(config.node or environment.get("NODE_NAME") or socket.gethostname().lower())


def _credentials(config: AgentConfig) -> ClientTls | None:
    if config.tls is not None:
        return ClientTls(config.tls)
    for address in [config.aggregator, *config.schedulers]:
        if address is not None:
            require_loopback(address.rpartition(":")[0], config.insecure_loopback)
    return None


def _continue(agent: Agent, config: AgentConfig, variant: str, now: float) -> None:
    """Restore the checkpoint; one that is damaged, or of another version, is moved aside: the agent learns anew."""
    if config.checkpoint is None:
        return
    file = Path(config.checkpoint)
    try:
        agent.model.restore(read_checkpoint(file, variant), now)
    except FileNotFoundError:
        return
    except InvalidState as error:
        suffixes = chain([".unusable"], (f".unusable.{number}" for number in count(1)))
        aside = next(free for suffix in suffixes if not (free := file.with_name(file.name + suffix)).exists())
        file.replace(aside)
        _log.warning("starting without the checkpoint, which is %s now: %s", aside, error)
