"""An agent's metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from carico.agent.loop import AgentLoop
from carico.rpc.background import BackgroundCalls

_SHARES = ("cpu_utilisation", "cpu_pressure", "cpu_stolen", "memory_utilisation", "memory_pressure", "io_pressure")


class AgentMetrics:
    """Collects the metrics of an agent when /metrics is requested, so that they cost nothing at other times.

    Parameters
    ----------
    agent : AgentLoop
    calls : mapping
        The agent's mailboxes, by destination.
    """

    def __init__(self, agent: AgentLoop, calls: Mapping[str, BackgroundCalls[Any, Any]]) -> None:
        self._agent = agent
        self._calls = calls

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        agent, telemetry = self._agent, self._agent.telemetry
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
            shares = GaugeMetricFamily("carico_agent_usage_ratio", "Usage in the last second", labels=["of"])
            for of in _SHARES:
                shares.add_metric([of], float(getattr(telemetry, of)))
            yield shares
        for name, (text, found) in agent.gauges().items():
            yield GaugeMetricFamily(f"carico_agent_{name}", text, value=found)
        results = CounterMetricFamily("carico_agent_calls", "Calls to other processes", labels=["to", "result"])
        for to, call in self._calls.items():
            for result in ("succeeded", "failed", "replaced"):
                results.add_metric([to, result], getattr(call, result))
        yield results
