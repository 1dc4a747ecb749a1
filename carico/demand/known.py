"""What nodes know of one workload, in arrays that are kept up to date report by report. Pure.

A decision looks at all nodes that know its workload. In arrays it finds that together, instead of node by node.
"""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray, IntArray


class Known:
    """The pods of a workload on the nodes that know it, and what memory a pod holds there, by the nodes' columns.

    Examples
    --------
    >>> known = Known()
    >>> known.note(3, pods=2, gib=0.5)
    >>> known.note(1, pods=1, gib=0.25)
    >>> known.drop(3)
    >>> known.of(1), known.of(3), known.spread(4).tolist()
    ((1.0, 0.25), (0.0, 0.0), [[0.0, 1.0, 0.0, 0.0], [0.0, 0.25, 0.0, 0.0]])
    """

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        """Where in the arrays each column is: n columns are in the first n places."""
        self._columns: IntArray = np.zeros(1, np.intp)
        self._values: FloatArray = np.zeros((2, 1))
        """Pods, and GiB."""

    def __len__(self) -> int:
        """Number of nodes that know the workload."""
        return len(self._place)

    @property
    def columns(self) -> list[int]:
        """The columns of these nodes."""
        return list(self._place)

    def note(self, column: int, pods: int, gib: float) -> None:
        """Note what the latest report of a node says."""
        place = self._place.get(column)
        if place is None:
            place = self._place[column] = len(self._place)
            if place == self._columns.size:
                self._columns = np.resize(self._columns, 2 * place)
                self._values = np.concatenate((self._values, self._values), axis=1)
            self._columns[place] = column
        self._values[0, place] = pods
        self._values[1, place] = gib

    def drop(self, column: int) -> None:
        """Note that a node does not know the workload any more."""
        place, last = self._place.pop(column), len(self._place)
        if place != last:
            moved = self._columns.item(last)
            self._place[moved] = place
            self._columns[place], self._values[:, place] = moved, self._values[:, last]

    def of(self, column: int) -> tuple[float, float]:
        """Return the workload's pods on a node, and what memory a pod holds there, GiB; 0 if the node knows nothing."""
        place = self._place.get(column)
        return (0.0, 0.0) if place is None else (self._values.item(0, place), self._values.item(1, place))

    def spread(self, width: int) -> FloatArray:
        """Return the same for all nodes, (2, width)."""
        spread, number = np.zeros((2, width)), len(self._place)
        spread[:, self._columns[:number]] = self._values[:, :number]
        return spread

    @property
    def runs(self) -> bool:
        """Whether any of these nodes runs a pod of the workload."""
        return bool(self._values[0, : len(self._place)].any())
