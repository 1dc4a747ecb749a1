"""Telemetry from the cluster's metrics server: means over many seconds, no pressure (thesis §4.2.1); needs msgspec.

The metrics server is too slow for pods that live for ten seconds, and provides no pressure. Use it, with the variant
`utilisation-only`, for nodes on which nothing can be installed. The caller makes the HTTP call; this module reads the
answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from carico.arrays import finite
from carico.clock import Clock, SystemClock
from carico.errors import TelemetryMalformed
from carico.telemetry.counters import Counters
from carico.telemetry.source import TelemetrySource

_QUANTITY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?)([numkMGTPE]|[KMGTPE]i|)")
_DURATION = re.compile(r"(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s)?")
_SCALES = (
    {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3}
    | {letter: 1e3 ** (2 + power) for power, letter in enumerate("MGTPE")}
    | {f"{letter}i": 1024.0 ** (1 + power) for power, letter in enumerate("KMGTPE")}
)
Text = Annotated[str, Meta(max_length=253)]


class Metadata(msgspec.Struct, frozen=True):
    """The metadata of a NodeMetrics; only the name is read."""

    name: Text


class Usage(msgspec.Struct, frozen=True):
    """CPUs and bytes of memory, as Kubernetes quantities; CPUs in use are a mean over the window."""

    cpu: Text
    memory: Text


class NodeStatus(msgspec.Struct, frozen=True):
    """The status of a Node; only its allocatable resources are read."""

    allocatable: Usage


class Node(msgspec.Struct, frozen=True):
    """A Node of the API `v1`; other fields are skipped."""

    status: NodeStatus


class NodeMetrics(msgspec.Struct, frozen=True):
    """A NodeMetrics of the API `metrics.k8s.io/v1beta1`; other fields are skipped."""

    metadata: Metadata
    timestamp: Text
    """The end of the window."""
    window: Text
    """As in 15.032s or 1m0s."""
    usage: Usage


class MetricsServerSource(TelemetrySource):
    """Turns a node's metrics into counters, by summing CPU usage times window.

    A reading is dated when it was first seen, because the server's clock and ours are unrelated. Memory in use is the
    kubelet's working set. Pressure is unknown, and returned as 0.

    Parameters
    ----------
    fetch : callable
        Returns the NodeMetrics of the node as parsed JSON; its exceptions are passed on.
    node : str
        The name that the NodeMetrics must have.
    allocatable_cpus : float
        The node's allocatable CPUs; utilisation is a share of them.
    allocatable_bytes : float
        The node's allocatable memory.
    clock : Clock, optional
        Dates the readings; the machine's monotonic clock by default.
    period_s : float
        Time between two calls, seconds; in between, the latest reading is repeated.
    on_close : callable, optional
        Called when the source is closed.

    Raises
    ------
    InvalidInput
        If CPUs, bytes or period are not above 0.
    """

    def __init__(
        self,
        fetch: Callable[[], Mapping[str, object]],
        node: str,
        *,
        allocatable_cpus: float,
        allocatable_bytes: float,
        clock: Clock | None = None,
        period_s: float = 15.0,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._fetch = fetch
        self._on_close = on_close
        self._node = node
        self._cpus = float(finite("allocatable_cpus", allocatable_cpus, low=1e-3, high=1e6))
        self._bytes = float(finite("allocatable_bytes", allocatable_bytes, low=1.0, high=1e18))
        self._clock = clock or SystemClock()
        self.period_s = float(finite("period_s", period_s, low=1e-3, high=86_400))
        self._asked_s = -float("inf")
        self._timestamp = ""
        self._granted_s = self._used_s = 0.0
        self._latest: Counters | None = None

    def read(self) -> Counters:
        """Return the latest reading.

        Raises
        ------
        TelemetryMalformed
            If the answer is not a NodeMetrics, or that of another node.
        """
        now = self._clock.now()
        if self._latest is not None and now < self._asked_s + self.period_s:
            return self._latest
        # Set before the call, so that the server is not asked ten times a second after a failure either.
        self._asked_s = now
        metrics = _metrics(self._fetch(), self._node)
        if self._latest is None or metrics.timestamp != self._timestamp:
            self._latest = self._reading(metrics, now)
        return self._latest

    def close(self) -> None:
        """Call `on_close`."""
        self._on_close()

    def _reading(self, metrics: NodeMetrics, now: float) -> Counters:
        window_s = parse_window(metrics.window)
        cpus, used_bytes = parse_quantity(metrics.usage.cpu), parse_quantity(metrics.usage.memory)
        self._timestamp = metrics.timestamp
        self._granted_s += self._cpus * window_s
        self._used_s += cpus * window_s
        return Counters(
            at_s=now,
            cpu_total=self._granted_s,
            cpu_idle=self._granted_s - self._used_s,
            cpu_pressure_us=0.0,
            memory_total=self._bytes,
            memory_free=max(self._bytes - used_bytes, 0.0),
            memory_buffers=0.0,
            memory_cached=0.0,
        )


def checked(answer: Mapping[str, object], node: str) -> Mapping[str, object]:
    """Return the answer if it is the NodeMetrics of this node.

    Raises
    ------
    TelemetryMalformed
        If the answer is not a NodeMetrics, or that of another node.
    """
    metrics = _metrics(answer, node)
    parse_window(metrics.window)
    for quantity in (metrics.usage.cpu, metrics.usage.memory):
        parse_quantity(quantity)
    return answer


def _metrics(answer: Mapping[str, object], node: str) -> NodeMetrics:
    try:
        metrics = msgspec.convert(answer, NodeMetrics)
    except msgspec.ValidationError as error:
        raise TelemetryMalformed(f"the metrics server's answer for {node} is not a NodeMetrics: {error}") from error
    if metrics.metadata.name != node:
        raise TelemetryMalformed(f"the metrics server must answer for the node {node}, got {metrics.metadata.name!r}")
    return metrics


def allocatable(node: Mapping[str, object]) -> tuple[float, float]:
    """Return the allocatable CPUs and bytes of memory of a Node that is given as parsed JSON.

    Raises
    ------
    TelemetryMalformed
        If these are missing or not quantities.
    """
    try:
        offered = msgspec.convert(node, Node).status.allocatable
    except msgspec.ValidationError as error:
        raise TelemetryMalformed(f"the answer is not a Node with allocatable resources: {error}") from error
    return parse_quantity(offered.cpu), parse_quantity(offered.memory)


def parse_quantity(text: str) -> float:
    """Return the value of a non-negative Kubernetes quantity, in CPUs or bytes.

    Raises
    ------
    TelemetryMalformed
        If the text is not such a quantity.

    Examples
    --------
    >>> parse_quantity("250m"), parse_quantity("1234Ki")
    (0.25, 1263616.0)
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise TelemetryMalformed(
            f"a quantity as in 123456789n or 1234Ki is needed, without a suffix or with one of "
            f"{', '.join(filter(None, _SCALES))}, got {text!r}"
        )
    return float(match[1]) * _SCALES[match[2]]


def parse_window(text: str) -> float:
    """Return the seconds of a duration in Go's notation, above 0 and at most a day.

    Raises
    ------
    TelemetryMalformed
        If the text is not such a duration.

    Examples
    --------
    >>> parse_window("15.032s"), parse_window("1m0s")
    (15.032, 60.0)
    """
    match = _DURATION.fullmatch(text)
    hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match is not None else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    if not 0 < total <= 86_400:
        raise TelemetryMalformed(f"a window above 0 s and up to 24h as in 15.032s or 1m0s is needed, got {text!r}")
    return total
