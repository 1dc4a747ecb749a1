"""How many nodes report, and how many of them have room: what metrics and alerts are about. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from carico.arrays import BoolArray, FloatArray


class NodeCounts(NamedTuple):
    """The nodes that have reported and were not forgotten."""

    nodes: int
    stale: int
    """Nodes whose last report is too old to be believed."""
    with_room: int
    """Nodes that have room for another pod."""
    oldest_s: float
    """Age of the oldest last report, seconds; 0 if no node has reported."""

    @classmethod
    def of(cls, age_s: FloatArray, has_room: BoolArray, stale_after_s: float) -> NodeCounts:
        """Count n nodes.

        Parameters
        ----------
        age_s : array, (n,)
            Seconds since each node reported.
        has_room : array of bool, (n,)
            Whether its last report and what is on its way leave room; of a report that is too old it does not count.
        stale_after_s : float
            An older report is not believed.

        Examples
        --------
        >>> NodeCounts.of(np.array([0.5, 9.0, 1.0]), np.array([True, True, False]), stale_after_s=5.0)
        NodeCounts(nodes=3, stale=1, with_room=1, oldest_s=9.0)
        """
        stale = age_s > stale_after_s
        rooms = int(np.count_nonzero(has_room & ~stale))
        return cls(len(age_s), int(np.count_nonzero(stale)), rooms, float(age_s.max(initial=0.0)))
