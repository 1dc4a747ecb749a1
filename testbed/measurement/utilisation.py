"""Utilisation, pressure and running pods of the nodes while jobs run (thesis §5.3, Fig 5.3 to 5.6)."""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray, IntArray
from testbed.errors import ResultsError
from testbed.measurement.statistics import summary
from testbed.results.schema import STOLEN, DataItem, NodeSeries, Repetition

METRICS = {
    "cpu_utilisation": "share",
    "cpu_pressure": "share",
    "memory_utilisation": "share",
    "running_pods": "pods",
}


def running_pods(repetition: Repetition) -> IntArray:
    """Running pods per node and second, shape (nodes, seconds)."""
    return np.asarray([node.running_pods for node in repetition.nodes], dtype=np.int64)


def cluster_mean(nodes: list[NodeSeries], metric: str) -> FloatArray:
    """Mean of a metric over the nodes that are up, per second; NaN while none is."""
    values = np.asarray([node.values(metric) for node in nodes], dtype=np.float64)
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    mean: FloatArray = np.where(count, np.where(there, values, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    return mean


def time_to_utilisation(nodes: list[NodeSeries], share: float = 0.95) -> float | None:
    """Seconds until the mean CPU utilisation of the nodes first reaches `share`; None if it never does."""
    reached = np.flatnonzero(cluster_mean(nodes, "cpu_utilisation") >= share)
    return nodes[0].time_s[int(reached[0])] if reached.size else None


def utilisation_items(nodes: list[NodeSeries]) -> list[DataItem]:
    """A data item per metric, over all nodes and seconds, and the time to 95 % CPU."""
    if not nodes or not nodes[0].time_s:
        return []
    items = []
    for metric, unit in (*METRICS.items(), (STOLEN, "share")):
        values = [value for node in nodes for value in node.values(metric) if value is not None]
        if values:
            items.append(DataItem(summary(values), unit, {"metric": metric}))
    seconds = time_to_utilisation(nodes)
    if seconds is not None:
        items.append(DataItem({"value": seconds}, "s", {"metric": "time_to_95_percent_cpu"}))
    return items


def median_between(node: NodeSeries, metric: str, begin_s: float, end_s: float) -> float:
    """Median of a node's metric over the seconds that end after `begin_s` and not after `end_s`.

    Raises
    ------
    ResultsError
        If the metric has no value in that time.
    """
    values = [
        value
        for at_s, value in zip(node.time_s, getattr(node, metric), strict=True)
        if value is not None and begin_s < at_s <= end_s
    ]
    if not values:
        raise ResultsError(
            f"{node.name} has no {metric} from {begin_s:g} to {end_s:g} s: the run ended before, or no agent reported"
        )
    return float(np.median(values))
