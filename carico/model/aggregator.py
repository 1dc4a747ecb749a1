"""The aggregator's merge core, sans I/O: a bounded queue of subspaces and one global view (thesis §4.3).

A call enqueues the caller's subspace and returns the latest view at once; subspaces are merged later, outside the call.
Only the newest waiting subspace of a node counts, so the queue never holds more than one entry per node. It waits until
the node's period is over, so that no node has more say because it exchanges more often.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from carico.errors import InvalidInput
from carico.model.subspace import Subspace


@dataclass(frozen=True)
class ReplicaView:
    """What one aggregation server has learned from its own nodes; `subspace` is None while it has learned nothing."""

    replica: str
    nodes: int
    subspace: Subspace | None


def pooled(views: Iterable[ReplicaView], rank: int | None = None) -> Subspace | None:
    """Return the average of the replicas' views, weighted by their nodes; None if no node is known (thesis §4.3)."""
    pool, nodes = None, 0
    for view in views:
        if view.subspace is None or not view.nodes:
            continue
        pool = view.subspace if pool is None else Subspace.merge(pool, view.subspace, nodes, view.nodes, rank=rank)
        nodes += view.nodes
    return pool


BATCH_SIZE = 10
"""Samples of a batch in all shipped variants."""
MERGE_PERIOD_S = 5.0
"""Every agent exchanges at least so often, however little news it has; so who exchanges more often has no more say."""
_LATE = 0.2
"""A node that is merged later than its period, by at most this share of the period, is not later with the next."""
_ROUNDING = 1e-6
"""By how much, relatively, a subspace may exceed the bound: single precision is within this."""


def impossible(subspace: Subspace, samples: int = BATCH_SIZE) -> str:
    """Return why no telemetry in [0, 1] has a node's or a replica's subspace; an empty text means that some has.

    In a batch of n samples, each resource has the energy Σ x² <= n, which n samples that say that it is full reach; a
    batch with holes is scaled to a full one's weight. These energies are the diagonal of the Gram matrix U Σ² Uᵀ.
    Whatever is merged after that is a convex combination of such matrices: neither a forgetting factor, nor the view of
    all nodes, nor the pool of replicas exceeds its largest part, and truncation only takes energy away. Therefore a
    subspace never has the energy of more than one batch, however long its history is.

    For the same reasons, no entry of a Gram matrix is negative: telemetry is not. Truncation may take a little away.

    A merge weighs a subspace by its energy, so that one with more would move everybody's view further than a full node,
    and one with negative entries would turn the view's direction further than any node can.

    Parameters
    ----------
    subspace : Subspace
        Of one node, with orthonormal columns.
    samples : int, optional
        n.
    """
    most = samples * (1.0 + _ROUNDING)
    (resources, rank), columns = subspace.basis.shape, subspace.columns
    values = subspace.singular_values.tolist()
    sound = values[0] <= math.sqrt(most * resources)  # or squares might overflow
    # Of these few numbers, Python finds the extremes sooner than numpy.
    entries = (columns @ columns.T).ravel().tolist() if sound else []
    if not sound or max(entries) > most:  # the largest entry of a Gram matrix is on its diagonal
        with np.errstate(over="ignore"):
            energies = np.square(columns).sum(axis=-1).tolist()
        return (
            f"no telemetry in [0, 1] has this subspace: the energy of a resource is at most {most:g}, "
            f"got {', '.join(f'{energy:g}' for energy in energies)}"
        )
    cut_off = values[-1] ** 2 if rank < resources else 0.0
    if min(entries) < -cut_off - samples * _ROUNDING:
        return f"no telemetry in [0, 1] has this subspace: products of usages are not negative, got {min(entries):g}"
    return ""


class Aggregator:
    """Merges the nodes' subspaces into one view, with weights (N - 1) / N and 1 / N for N known nodes.

    Parameters
    ----------
    resources : int
        Number of resources d that every subspace must describe.
    rank : int, optional
        Components kept in the view; all by default.
    samples : int, optional
        Samples of a node's batch, which bound the energy of its subspace, see `impossible`.
    period_s : float, optional
        A node's subspace is merged once in this time at most; by default, as often as it is taken.

    Raises
    ------
    InvalidInput
        If a number is not positive; the period may be 0.

    Examples
    --------
    >>> aggregator = Aggregator(resources=2)
    >>> busy = Subspace.from_batch([[0.9], [0.2]])
    >>> aggregator.exchange("node-0", busy) is busy   # there is no view yet
    True
    >>> aggregator.merge(aggregator.take_waiting())
    >>> np.allclose(aggregator.view.workload, busy.workload)
    True
    """

    def __init__(
        self, resources: int, rank: int | None = None, samples: int = BATCH_SIZE, period_s: float = 0.0
    ) -> None:
        if resources < 1 or (rank is not None and rank < 1) or samples < 1:
            raise InvalidInput(f"resources, rank and samples must be at least 1, got {resources}, {rank} and {samples}")
        if not 0 <= period_s < math.inf:
            raise InvalidInput(f"period_s must be a number of seconds from 0 on, got {period_s}")
        self.resources = resources
        self.rank = rank
        self._period_s = period_s
        self._samples = samples
        self._view: Subspace | None = None
        self._waiting: OrderedDict[str, Subspace] = OrderedDict()
        self._nodes: set[str] = set()
        self._due: dict[str, float] = {}
        """From when on each node's next subspace may be taken."""

    @property
    def waiting(self) -> int:
        """Number of nodes whose subspaces wait."""
        return len(self._waiting)

    @property
    def nodes(self) -> int:
        """Number of known nodes."""
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
            If the subspace describes another number of resources or more than one node, or cannot come from telemetry.
            A single such subspace would spoil the view of every node.
        """
        if subspace.basis.ndim != 2 or subspace.basis.shape[0] != self.resources:
            raise InvalidInput(f"{node}: a basis of shape ({self.resources}, r) is needed, got {subspace.basis.shape}")
        why_not = impossible(subspace, self._samples)
        if why_not:
            raise InvalidInput(f"{node}: {why_not}")
        self._nodes.add(node)
        self._waiting[node] = subspace
        return subspace if self._view is None else self._view

    def forget(self, node: str) -> None:
        """Stop counting a node, for instance because it left the cluster."""
        self._nodes.discard(node)
        self._waiting.pop(node, None)
        self._due.pop(node, None)

    def take_waiting(self, now: float = 0.0) -> list[Subspace]:
        """Return the waiting subspaces of nodes whose period is over, oldest first, and remove them from the queue.

        Parameters
        ----------
        now : float
            Seconds; never less than before. Only a period needs it.
        """
        late = {node: now - self._due.get(node, -math.inf) for node in self._waiting}
        taken = [node for node in self._waiting if late[node] >= 0]
        for node in taken:
            # Periods follow each other, though nobody looks in the moment when one ends; but who is much later must not
            # be merged twice in a row.
            self._due[node] = now + self._period_s - (late[node] if late[node] <= _LATE * self._period_s else 0.0)
        return [self._waiting.pop(node) for node in taken]

    def merge(self, subspaces: Sequence[Subspace]) -> None:
        """Merge subspaces into the view with one decomposition, as if one after the other in this order.

        A merge is linear in the Gram matrices U Σ² Uᵀ: after m merges with weight w = 1 / N, the i-th subspace weighs
        w (1 - w)^(m - i) and the old view (1 - w)^m. If the rank is below the number of resources, the result alone is
        truncated, not every intermediate one.
        """
        if not subspaces:
            return
        share = 1.0 / max(self.nodes, 1)
        ages = np.arange(len(subspaces) - 1.0, -1.0, -1.0)
        weights = share * (1.0 - share) ** ages
        if self._view is None:
            # The first subspace takes the place of the missing view.
            weights[0] = (1.0 - share) ** ages[0]
        total = float(weights.sum())
        scales = np.sqrt(weights / total)
        columns = np.concatenate(
            [subspace.columns * scale for subspace, scale in zip(subspaces, scales, strict=True)], axis=-1
        )
        blank = np.zeros((self.resources, 1))
        view = Subspace(blank, blank[0]) if self._view is None else self._view
        self._view = view.updated(columns, min(total, 1.0), self.rank)
