"""Records the state of the nodes once a second, from the same counters that the agents read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.telemetry.counters import Counters, telemetry_between
from testbed.results.schema import REPORTED, USAGE, NodeSeries, WorkloadCost

Costs = Mapping[str, tuple[float, float]]
"""What a pod of each workload takes: cores, and GiB."""
MOST_WORKLOADS = 10
"""The most workloads whose costs are recorded: more could not be told apart in a figure."""


class Recorder:
    """Collects a row per node and second.

    Parameters
    ----------
    names : list of str
        The nodes.
    first : Counters
        The reading that the first row is measured from.
    titles : mapping of str to str, optional
        What workloads are called in the results, by the names that agents have for them.
    """

    def __init__(self, names: list[str], first: Counters, titles: Mapping[str, str] | None = None) -> None:
        self._names = names
        self._titles = titles or {}
        self._previous = first
        self._rows: dict[str, list[FloatArray | IntArray]] = {}
        self._times: list[float] = []
        self._costs: list[Sequence[Costs]] = []
        self._workloads: dict[str, None] = {}

    def record(
        self,
        at: float,
        counters: Counters,
        running: IntArray,
        reported: dict[str, FloatArray] | None,
        up: BoolArray | None = None,
        costs: Sequence[Costs] | None = None,
    ) -> None:
        """Add a row: the mean telemetry since the last row, and the latest reports of the agents, if any.

        For nodes that are down, only the number of pods is recorded.
        """
        telemetry = telemetry_between(self._previous, counters)
        self._previous = counters
        unknown = np.full(len(self._names), np.nan)
        row = {
            "running_pods": running.copy(),
            **{name: np.where(True if up is None else up, getattr(telemetry, name), np.nan) for name in USAGE},
        } | {name: unknown if reported is None else reported[name].copy() for name in REPORTED}
        self._times.append(round(at, 6))
        if costs is not None:
            self._costs.append(list(costs))
            for workload in (name for known in costs for name in known if name not in self._workloads):
                if len(self._workloads) < MOST_WORKLOADS:
                    self._workloads[workload] = None
        for name, values in row.items():
            self._rows.setdefault(name, []).append(values)

    def series(self) -> list[NodeSeries]:
        """Return everything recorded, per node."""
        if not self._times:
            empty: dict[str, Any] = {name: [] for name in NodeSeries.__struct_fields__ if name != "name"}
            return [NodeSeries(name=name, **empty) for name in self._names]
        table = {name: np.stack(rows, axis=1) for name, rows in self._rows.items()}
        running = table.pop("running_pods")
        series = []
        for index, name in enumerate(self._names):
            columns: dict[str, Any] = {column: _rounded(values[index]) for column, values in table.items()}
            pods = running[index].tolist()
            costs = self._costs_of(index)
            series.append(NodeSeries(name=name, time_s=list(self._times), running_pods=pods, **columns, costs=costs))
        return series

    def _costs_of(self, node: int) -> list[WorkloadCost]:
        unknown = (np.nan, np.nan)
        found = []
        for workload in self._workloads:
            cores, gib = np.array([costs[node].get(workload, unknown) for costs in self._costs], dtype=np.float64).T
            if np.isfinite(cores).any():
                found.append(WorkloadCost(self._titles.get(workload, workload), _rounded(cores), _rounded(gib)))
        return found


def _rounded(values: FloatArray) -> list[float | None]:
    """Round to micro-units, finer than anything measured; NaN and inf, which JSON does not have, become None."""
    return [value if np.isfinite(value) else None for value in np.round(values, 6).tolist()]
