"""Records the state of the nodes once a second, from the same counters that the agents read."""

from __future__ import annotations

from typing import Any

import numpy as np

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.telemetry.counters import Counters, telemetry_between
from testbed.results.schema import REPORTED, USAGE, NodeSeries


class Recorder:
    """Collects a row per node and second.

    Parameters
    ----------
    names : list of str
        The nodes.
    first : Counters
        The reading that the first row is measured from.
    """

    def __init__(self, names: list[str], first: Counters) -> None:
        self._names = names
        self._previous = first
        self._rows: dict[str, list[FloatArray | IntArray]] = {}
        self._times: list[float] = []

    def record(
        self,
        at: float,
        counters: Counters,
        running: IntArray,
        reported: dict[str, FloatArray] | None,
        up: BoolArray | None = None,
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
            series.append(NodeSeries(name=name, time_s=list(self._times), running_pods=pods, **columns))
        return series


def _rounded(values: FloatArray) -> list[float | None]:
    """Round to micro-units, finer than anything measured; NaN and inf, which JSON does not have, become None."""
    return [value if np.isfinite(value) else None for value in np.round(values, 6).tolist()]
