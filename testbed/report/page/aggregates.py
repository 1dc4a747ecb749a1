"""The numbers behind the figures: repetitions turned into quantiles, bands and grids. Pure.

Bands are extremes over the repetitions, so that no figure looks more certain than one seed would make it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from carico.arrays import FloatArray
from testbed.measurement.utilisation import cluster_mean
from testbed.results.schema import NodeSeries, Repetition

SHARES = np.round(np.concatenate([np.linspace(0.0, 0.98, 50), [0.99, 0.995, 1.0]]), 4)
"""The shares at which distributions are drawn."""


@dataclass(frozen=True)
class Distribution:
    """Values by their shares, over all repetitions together, and the extremes of the repetitions."""

    middle: FloatArray
    low: FloatArray
    high: FloatArray
    """Each of the shape of `SHARES`."""
    count: int


@dataclass(frozen=True)
class Series:
    """A quantity over time: its median over the repetitions, and a band."""

    time_s: FloatArray
    middle: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Grid:
    """A quantity by node and time; NaN where there is none."""

    rows: list[str]
    """The nodes; of very many, groups of neighbours."""
    begin_s: FloatArray
    step_s: float
    values: FloatArray
    """Shape (rows, times)."""


def distribution(samples: Sequence[Sequence[float]]) -> Distribution | None:
    """Return the distribution of what repetitions measured; None if they measured nothing."""
    samples = [sample for sample in samples if len(sample)]
    if not samples:
        return None
    each = np.array([np.quantile(sample, SHARES) for sample in samples])
    pooled = np.concatenate([np.asarray(sample, dtype=np.float64) for sample in samples])
    return Distribution(np.quantile(pooled, SHARES), each.min(axis=0), each.max(axis=0), pooled.size)


def longest_s(repetitions: Sequence[Repetition]) -> float:
    """Return for how long nodes were observed, in seconds; 0 if they were not."""
    return max((node.time_s[-1] for one in repetitions for node in one.nodes if node.time_s), default=0.0)


def bin_s(until_s: float, bins: int) -> float:
    """Return the width of a bin in whole seconds, so that there are at most so many."""
    return float(max(1, int(np.ceil(until_s / bins))))


def cluster_series(repetitions: Sequence[Repetition], metric: str, step_s: float) -> Series | None:
    """Return the mean of a metric over the nodes, in bins of time; the band has the extremes of the repetitions."""
    return _over_repetitions(repetitions, step_s, lambda nodes: cluster_mean(nodes, metric))


def extreme_series(repetitions: Sequence[Repetition], metric: str, step_s: float, *, highest: bool) -> Series | None:
    """Return the metric of the node with the most or the least of it at any time; the band as in `cluster_series`."""

    def extreme(nodes: list[NodeSeries]) -> FloatArray:
        values = _values(nodes, metric)
        there = ~np.isnan(values).all(axis=0)
        found = np.full(values.shape[1], np.nan)
        found[there] = (np.nanmax if highest else np.nanmin)(values[:, there], axis=0)
        return found

    return _over_repetitions(repetitions, step_s, extreme)


def node_series(repetitions: Sequence[Repetition], metric: str, step_s: float) -> Series | None:
    """Return a metric in bins of time: the median of all nodes of all repetitions; the band has their middle 80 %."""
    return _over_nodes(repetitions, step_s, lambda nodes: _values(nodes, metric))


def cost_series(repetitions: Sequence[Repetition], workload: str, quantity: str, step_s: float) -> Series | None:
    """Return what nodes have learned that a pod of a workload takes, where they know it; else as `node_series`.

    Parameters
    ----------
    repetitions : sequence of Repetition
    workload : str
    quantity : str
        `cores` or `gib`.
    step_s : float
    """

    def learned(nodes: list[NodeSeries]) -> FloatArray:
        known = [getattr(one, quantity) for node in nodes for one in node.costs if one.workload == workload]
        return np.array(known, dtype=np.float64).reshape(len(known), len(nodes[0].time_s))

    return _over_nodes(repetitions, step_s, learned)


def workloads_of(repetitions: Iterable[Repetition]) -> list[str]:
    """Return the workloads of which nodes have learned something."""
    return list(dict.fromkeys(cost.workload for one in repetitions for node in one.nodes for cost in node.costs))


def grid(repetition: Repetition, metric: str, step_s: float, most_rows: int = 40) -> Grid | None:
    """Return a metric of every node of one repetition, in bins of time; None if it was not measured."""
    nodes = [node for node in repetition.nodes if node.time_s]
    if not nodes:
        return None
    values = _binned(nodes[0].time_s, _values(nodes, metric), step_s)
    names = [node.name for node in nodes]
    together = -(-len(nodes) // most_rows)
    if together > 1:
        starts = range(0, len(nodes), together)
        names = [f"{names[at]} to {names[min(at + together, len(names)) - 1]}" for at in starts]
        values = np.array([_nanmean(values[at : at + together], axis=0) for at in starts])
    begin_s: FloatArray = step_s * np.arange(values.shape[1], dtype=np.float64)
    return Grid(names, begin_s, step_s, values)


def typical(repetitions: Sequence[Repetition], taken_s: Callable[[Repetition], float | None]) -> Repetition:
    """Return the repetition with the median completion time, where nothing completed counting as the longest."""
    in_order = sorted(repetitions, key=lambda one: (taken_s(one) is None, taken_s(one) or 0.0))
    return in_order[(len(in_order) - 1) // 2]


def _over_nodes(
    repetitions: Sequence[Repetition], step_s: float, of_nodes: Callable[[list[NodeSeries]], FloatArray]
) -> Series | None:
    rows = [
        row
        for one in repetitions
        if one.nodes and one.nodes[0].time_s
        for row in _binned(one.nodes[0].time_s, of_nodes(one.nodes), step_s)
    ]
    return _summarised(rows, step_s, 10.0, 90.0)


def _over_repetitions(
    repetitions: Sequence[Repetition], step_s: float, of_nodes: Callable[[list[NodeSeries]], FloatArray]
) -> Series | None:
    rows = [
        _binned(one.nodes[0].time_s, of_nodes(one.nodes)[np.newaxis], step_s)[0]
        for one in repetitions
        if one.nodes and one.nodes[0].time_s
    ]
    return _summarised(rows, step_s, 0.0, 100.0)


def _summarised(rows: Sequence[FloatArray], step_s: float, low: float, high: float) -> Series | None:
    """Return the median and a band, where at least half of the rows have a value; None if that is nowhere."""
    if not rows:
        return None
    values = np.full((len(rows), max(map(len, rows))), np.nan)
    for row, of_row in zip(values, rows, strict=True):
        row[: len(of_row)] = of_row
    enough = 2 * (~np.isnan(values)).sum(axis=0) >= len(rows)
    enough &= ~np.isnan(values).all(axis=0)
    if not enough.any():
        return None
    values, shares = values[:, enough], [low, 50.0, high]
    found: FloatArray = np.empty((3, values.shape[1]))
    whole = ~np.isnan(values).any(axis=0)  # nanpercentile takes very long
    found[:, whole] = np.percentile(values[:, whole], shares, axis=0)
    found[:, ~whole] = np.nanpercentile(values[:, ~whole], shares, axis=0)
    time_s = (step_s * (np.flatnonzero(enough) + 0.5)).astype(np.float64)
    return Series(time_s, found[1], found[0], found[2])


def _binned(time_s: Sequence[float], values: FloatArray, step_s: float) -> FloatArray:
    """Return the means of the values, shape (rows, seconds), in bins of time; NaN where there are none."""
    place = np.maximum((np.ceil(time_s) - 1).astype(int) // int(step_s), 0)
    there = ~np.isnan(values)
    sums, counts = np.zeros((2, int(place.max()) + 1, len(values)))
    np.add.at(sums, place, np.where(there, values, 0.0).T)
    np.add.at(counts, place, there.T)
    means: FloatArray = np.where(counts, sums / np.maximum(counts, 1), np.nan).T
    return means


def _nanmean(values: FloatArray, axis: int) -> FloatArray:
    there = ~np.isnan(values)
    count = there.sum(axis=axis)
    mean: FloatArray = np.where(count, np.where(there, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)
    return mean


def _values(nodes: Sequence[NodeSeries], metric: str) -> FloatArray:
    return np.array([node.values(metric) for node in nodes], dtype=np.float64)
