"""The agent as a process: opens what its configuration names, joins it in an `Agent`, and closes it again."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, count
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from carico.agent.agent import Agent
from carico.agent.checkpoint import read_checkpoint, write_checkpoint
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
            # A thread of its own: no name that cannot be found for long is to hold up what is kept.
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
            aggregator,
            reports,
            checkpoints,
            variant,
            config.max_pods,
        )
        _continue(agent, config, variant.name, clock.now())
        registry = CollectorRegistry()
        registry.register(AgentMetrics(agent, calls))
        status = opened.enter_context(serve_status(config.status, config.tls, registry, agent.healthy, agent.ready))
        _log.info("running", extra={"node": node, "status_port": status.port})
        agent.run(stop)
    _log.info("stopped")


def name_of(config: AgentConfig, environment: Mapping[str, str]) -> str:
    """Return the node's name: as configured, as the downward API says, or the host's.

    Raises
    ------
    InvalidInput
        If it is no name of a node.
    """
    return node_name(config.node or environment.get("NODE_NAME") or socket.gethostname().lower())


class AgentMetrics:
    """What /metrics shows of an agent, read when it is asked for.

    Parameters
    ----------
    agent : Agent
    calls : mapping
        Its mailboxes, by destination.
    """

    def __init__(self, agent: Agent, calls: Mapping[str, BackgroundCalls[Any, Any]]) -> None:
        self._agent = agent
        self._calls = calls

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        agent, report, telemetry = self._agent, self._agent.report, self._agent.telemetry
        counts = {
            "samples": ("Telemetry samples taken in", agent.samples),
            "missed_samples": ("Deadlines that passed without a sample", agent.sampler.missed),
            "steps": ("Steps of the model", agent.steps),
            "pod_events": ("Starts and stops of pods", agent.pod_events),
            "miscounts": ("Pod events that contradicted the count", agent.miscounts),
        }
        for name, (text, value) in counts.items():
            yield CounterMetricFamily(f"carico_agent_{name}", text, value=value)
        if telemetry is not None:
            shares = GaugeMetricFamily("carico_agent_usage_ratio", "Of the last second", labels=["of"])
            for of in ("cpu_utilisation", "cpu_pressure", "memory_utilisation", "memory_pressure", "io_pressure"):
                shares.add_metric([of], float(getattr(telemetry, of)))
            yield shares
        if report is not None:
            gauges = {
                "capacity_signal": "k, in average workloads",
                "baseline": "Estimated k of the idle node",
                "pod_cost": "Estimated drop of k per pod",
                "pods": "Running pods",
                "pod_capacity": "Pods that fit on top, as reported",
            }
            for name, text in gauges.items():
                yield GaugeMetricFamily(f"carico_agent_{name}", text, value=float(getattr(report, name)))
        results = CounterMetricFamily("carico_agent_calls", "Calls to other processes", labels=["to", "result"])
        for to, call in self._calls.items():
            for result in ("succeeded", "failed", "replaced"):
                results.add_metric([to, result], getattr(call, result))
        yield results


def _credentials(config: AgentConfig) -> ClientTls | None:
    if config.tls is not None:
        return ClientTls(config.tls)
    for address in [config.aggregator, *config.schedulers]:
        if address is not None:
            require_loopback(address.rpartition(":")[0], config.insecure_loopback)
    return None


def _continue(agent: Agent, config: AgentConfig, variant: str, now: float) -> None:
    """Take up what a checkpoint holds; what is damaged, or another version's, is moved aside: anew works, too."""
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
