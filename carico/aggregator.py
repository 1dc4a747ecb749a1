"""The aggregator's merge core, sans I/O: a bounded queue of subspaces and one global view (thesis §4.3).

A call enqueues the caller's subspace and is answered with the latest view at once; merging happens afterwards, off the
call's path. Per node only the newest waiting subspace counts, so the queue never holds more than one entry a node.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np

from carico.errors import InvalidInput
from carico.subspace import Subspace

_MOST_SAMPLES = 1_000_000
"""Samples in a batch, at most: no singular value of d × n numbers in [0, 1] exceeds √(d n)."""


class Aggregator:
    """Merges the nodes' subspaces into one view, with weights (N - 1) / N and 1 / N for N known nodes.

    Parameters
    ----------
    resources : int
        Number of resources d that every subspace must describe.
    rank : int, optional
        Components kept in the view; all by default.

    Raises
    ------
    InvalidInput
        If the number of resources or the rank is not positive.

    Examples
    --------
    >>> aggregator = Aggregator(resources=2)
    >>> busy = Subspace.from_batch([[0.9], [0.2]])
    >>> aggregator.exchange("node-0", busy) is busy   # nobody was heard of before
    True
    >>> aggregator.merge_pending()
    1
    """

    def __init__(self, resources: int, rank: int | None = None) -> None:
        if resources < 1 or (rank is not None and rank < 1):
            raise InvalidInput(f"resources and rank must be at least 1, got {resources} and {rank}")
        self.resources = resources
        self.rank = rank
        self._view: Subspace | None = None
        self._waiting: OrderedDict[str, Subspace] = OrderedDict()
        self._nodes: set[str] = set()

    @property
    def nodes(self) -> int:
        """Number of nodes heard of."""
        return len(self._nodes)

    @property
    def view(self) -> Subspace | None:
        """The latest global subspace; None before the first merge."""
        return self._view

    def exchange(self, node: str, subspace: Subspace) -> Subspace:
        """Enqueue a node's subspace and return the latest view (the node's own where there is none yet).

        Raises
        ------
        InvalidInput
            If the subspace describes another number of resources or more than one node, or is none of telemetry: one
            such would spoil the view of every node.
        """
        if subspace.basis.ndim != 2 or subspace.basis.shape[0] != self.resources:
            raise InvalidInput(f"{node}: a basis of shape ({self.resources}, r) is needed, got {subspace.basis.shape}")
        largest = float(np.max(subspace.singular_values, initial=0.0))
        if largest > math.sqrt(self.resources * _MOST_SAMPLES) or np.abs(subspace.basis).max(initial=0.0) > 1 + 1e-6:
            raise InvalidInput(
                f"{node}: no telemetry in [0, 1] has such a subspace (largest singular value {largest:g})"
            )
        self._nodes.add(node)
        self._waiting[node] = subspace
        return subspace if self._view is None else self._view

    def forget(self, node: str) -> None:
        """Count a node no longer, for instance because it left the cluster."""
        self._nodes.discard(node)
        self._waiting.pop(node, None)

    def merge_pending(self) -> int:
        """Merge everything that waits, oldest first, and return how many subspaces that were."""
        merged = len(self._waiting)
        while self._waiting:
            _, subspace = self._waiting.popitem(last=False)
            if self._view is None:
                self._view = Subspace(subspace.basis[:, : self.rank], subspace.singular_values[: self.rank])
            else:
                self._view = Subspace.merge(self._view, subspace, self.nodes - 1, 1, self.rank)
        return merged
