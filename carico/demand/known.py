"""What nodes know of workloads, in arrays that are kept up to date report by report. Pure.

A decision looks at all nodes that know one workload, a report tells of all workloads that one node knows. What a node
knows of a workload has a place in the arrays as long as the node's reports contain the workload, so that both read and
write many places in one step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set

import numpy as np

from carico.arrays import FloatArray, IntArray


class Known:
    """The pods of each workload on each node, what memory a pod holds there, and whether pods were measured there.

    Nodes are columns of other arrays.

    Examples
    --------
    >>> known = Known()
    >>> known.note(3, ["pi", "web"], pods=[2, 0], gib=[0.5, 0.1], measured=[True, False])
    >>> known.note(1, ["pi"], pods=[1], gib=[0.25], measured=[False])
    >>> known.note(3, ["web"], pods=[1], gib=[0.1], measured=[False])
    >>> known.of("pi", 1), known.of("pi", 3), known.spread("pi", 4).tolist()
    ((1.0, 0.25), (0.0, 0.0), [[0.0, 1.0, 0.0, 0.0], [0.0, 0.25, 0.0, 0.0]])
    """

    def __init__(self) -> None:
        self._of_node: dict[int, tuple[Sequence[str], IntArray]] = {}
        """The workloads that each column's node knows, and their places."""
        self._of_workload: defaultdict[str, dict[int, int]] = defaultdict(dict)
        """The places of each workload, by column."""
        self._places: dict[str, IntArray] = {}
        """The same places as arrays, as long as they do not change."""
        self._columns: IntArray = np.zeros(0, np.intp)
        self._values: FloatArray = np.zeros((3, 0))
        """Pods, GiB, and whether pods were measured."""
        self._free: list[int] = []

    @property
    def workloads(self) -> Set[str]:
        """The workloads that any node knows."""
        return self._of_workload.keys()

    def note(
        self,
        column: int,
        workloads: Sequence[str],
        pods: Sequence[int],
        gib: Sequence[float],
        measured: Sequence[bool],
    ) -> None:
        """Replace what a node knows."""
        names, places = self._of_node.get(column, ((), None))
        if places is None or names != workloads:
            places = self._keep_places(column, workloads, names)
        self._values[0, places] = pods
        self._values[1, places] = gib
        self._values[2, places] = measured

    def forget(self, column: int) -> None:
        """Drop what a node knows."""
        if column in self._of_node:
            self.note(column, [], [], [], [])
            del self._of_node[column]

    def nodes(self, workload: str) -> list[int]:
        """Return the columns of the nodes that know a workload."""
        return list(self._of_workload.get(workload, ()))

    def of(self, workload: str, column: int) -> tuple[float, float]:
        """Return a workload's pods on a node, and what memory a pod holds there, GiB; 0 if the node knows nothing."""
        place = self._of_workload.get(workload, {}).get(column)
        return (0.0, 0.0) if place is None else (self._values.item(0, place), self._values.item(1, place))

    def spread(self, workload: str, width: int) -> FloatArray:
        """Return the same for all columns, (2, width)."""
        spread, places = np.zeros((2, width)), self._places_of(workload)
        spread[:, self._columns[places]] = self._values[:2, places]
        return spread

    def runs(self, workload: str) -> bool:
        """Return whether any node runs a pod of a workload."""
        return bool(self._values[0, self._places_of(workload)].any())

    def measured(self, workload: str) -> bool:
        """Return whether pods of a workload were measured on any node."""
        return bool(self._values[2, self._places_of(workload)].any())

    def _places_of(self, workload: str) -> IntArray:
        places = self._places.get(workload)
        if places is None:
            by_column = self._of_workload.get(workload, {})
            places = np.fromiter(by_column.values(), np.intp, len(by_column))
            if by_column:
                self._places[workload] = places
        return places

    def _keep_places(self, column: int, workloads: Sequence[str], before: Sequence[str]) -> IntArray:
        """Give places to the workloads that a node knows, take them from those that it does not know any more."""
        wanted = set(workloads)
        for name in before:
            if name not in wanted:
                self._free.append(self._of_workload[name].pop(column))
                self._places.pop(name, None)
                if not self._of_workload[name]:
                    del self._of_workload[name]
        for name in workloads:
            if column not in self._of_workload[name]:
                self._of_workload[name][column] = self._new_place(column)
                self._places.pop(name, None)
        places = np.fromiter((self._of_workload[name][column] for name in workloads), np.intp, len(workloads))
        self._of_node[column] = workloads, places
        return places

    def _new_place(self, column: int) -> int:
        if not self._free:
            size = self._columns.size
            more = max(size // 2, 64)
            self._columns = np.concatenate((self._columns, np.zeros(more, np.intp)))
            self._values = np.concatenate((self._values, np.zeros((3, more))), axis=1)
            self._free = list(range(size + more - 1, size - 1, -1))
        place = self._free.pop()
        self._columns[place] = column
        return place
