"""The demand of a node without a machine, from annotations of its running pods. Pure.

This takes the place of `carico.demand.node`. Nothing is learned: from the first pod of a workload on, a node knows its
cost as precisely as any report is believed.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import NamedTuple

from carico.demand.regression import MOST_WORKLOADS, Estimate
from carico.demand.report import MOST_CORES, MOST_GIB, DemandReport, WorkloadReport
from carico.demand.settings import DemandVariant
from carico.demand.workload import workload_of
from testbed.real.api import Json

_log = logging.getLogger(__name__)

CORES = "carico.dev/cores"
GIB = "carico.dev/gib"
"""Annotations of a pod: its demand while it runs, in threads that want a CPU and in GiB."""
DEFAULT_CORES = 1.0
DEFAULT_GIB = 0.1
"""The demand of a pod without the annotations."""


class NodeSize(NamedTuple):
    """The size of a node."""

    cores: float
    gib: float


class _Pod(NamedTuple):
    workload: str
    cores: float
    gib: float


class SyntheticDemand:
    """The running pods of one node, and the report that an agent would make of them.

    Parameters
    ----------
    node : str
        The node's name.
    size : NodeSize
    variant : DemandVariant

    Examples
    --------
    >>> from carico.demand.settings import DEMAND
    >>> node = SyntheticDemand("node-0", NodeSize(4.0, 16.0), DEMAND)
    >>> pod = {"metadata": {"uid": "a", "annotations": {CORES: "0.5"}}, "spec": {"containers": [{"name": "pi"}]}}
    >>> node.pod_started(pod)
    >>> node.report(at=1.0).demand_cores.mean
    0.5
    """

    def __init__(self, node: str, size: NodeSize, variant: DemandVariant) -> None:
        self._node = node
        self._size = size
        self._variant = variant
        self._running: dict[str, _Pod] = {}
        self._costs: dict[str, _Pod] = {}
        """The latest pod of every workload that has run here, in the order of their latest starts."""
        self._stops: dict[str, tuple[float, float]] = {}
        """By workload, how many pods a second had stopped when the latest pod did, and when that was."""

    def pod_started(self, pod: Json) -> None:
        """Note that a pod runs, as the API shows it."""
        workload = workload_of(pod)
        one = _Pod(
            workload, _annotated(pod, CORES, DEFAULT_CORES, MOST_CORES), _annotated(pod, GIB, DEFAULT_GIB, MOST_GIB)
        )
        self._running[pod["metadata"]["uid"]] = one
        self._costs.pop(workload, None)
        self._costs[workload] = one
        if len(self._costs) > MOST_WORKLOADS:
            oldest = next(iter(self._costs))
            del self._costs[oldest]
            self._stops.pop(oldest, None)

    def pod_stopped(self, uid: str, at: float) -> None:
        """Note that a pod is gone."""
        workload = self._running.pop(uid).workload
        self._stops[workload] = self._stops_per_s(workload, at) + 1 / self._variant.stops_s, at

    def report(self, at: float) -> DemandReport:
        """Return the node's report at a time, seconds on the clock of `pod_stopped`."""
        pods = Counter(pod.workload for pod in self._running.values())
        held_gib = sum(pod.gib for pod in self._running.values())
        doubt_cores, doubt_gib = self._variant.finest_cores**2, self._variant.finest_gib**2
        return DemandReport(
            self._node,
            self._size.cores,
            self._size.gib,
            Estimate(sum(pod.cores for pod in self._running.values()), doubt_cores),
            held_gib,
            0.0,
            {
                workload: WorkloadReport(
                    pods[workload],
                    self._stops_per_s(workload, at),
                    Estimate(cost.cores, doubt_cores),
                    Estimate(cost.gib, doubt_gib),
                )
                for workload, cost in self._costs.items()
            },
            {uid: pod.workload for uid, pod in self._running.items()},
        )

    def _stops_per_s(self, workload: str, at: float) -> float:
        rate, then = self._stops.get(workload, (0.0, at))
        return rate * math.exp(-(at - then) / self._variant.stops_s)


def _annotated(pod: Json, name: str, default: float, most: float) -> float:
    written = (pod["metadata"].get("annotations") or {}).get(name)
    if written is None:
        return default
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if 0 <= value <= most:
        return value
    wanted = f"a number in [0, {most:g}]"
    _log.warning("%s of pod %s must be %s, got %r: %g is taken", name, _name(pod), wanted, written, default)
    return default


def _name(pod: Json) -> str:
    return str(pod["metadata"].get("name", pod["metadata"]["uid"]))
