"""Which nodes pods may go to, as far as requests have shown. Pure.

A node with room is of no use to pods that may not go there, because it belongs to the control plane or to another zone.
kube-scheduler evaluates these rules (selectors, affinity, taints), and its requests name the nodes that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

MOST_PLACEMENTS = 1000
MOST_NODES = 1_000_000
"""Placements that are remembered, and the sum of their numbers of nodes; the placement that was noted the longest ago
is forgotten first. Equal sets of nodes count, and are held, once."""


@dataclass
class _Nodes:
    """A set of nodes that some placements have in common."""

    names: frozenset[str]
    listed: Sequence[str]
    """The same nodes in the order of the latest request."""
    placements: int = 0


class Candidates:
    """The latest candidates of every placement.

    Examples
    --------
    >>> candidates = Candidates()
    >>> candidates.note("zone=a", ["node-0", "node-1"])
    >>> candidates.allowed("zone=a", "node-2"), candidates.allowed("zone=b", "node-2")
    (False, True)
    >>> sorted(candidates.usable)
    ['node-0', 'node-1']
    """

    def __init__(self) -> None:
        self._of: dict[str, _Nodes] = {}
        """By placement; the one that was noted the longest ago comes first."""
        self._marks: dict[str, Hashable] = {}
        self._sets: dict[frozenset[str], _Nodes] = {}
        self._in: Counter[str] = Counter()
        """The number of different sets that each node is in."""
        self._held = 0
        """The sum of the sizes of these sets."""
        self._usable: frozenset[str] | None = None

    def note(self, placement: str, nodes: Sequence[str], mark: Hashable = None) -> None:
        """Note the candidates of a request.

        Parameters
        ----------
        placement : str
        nodes : sequence of str
            In any order: kube-scheduler's filters run at the same time, so that the order is another in every request.
        mark : hashable, optional
            A value that is equal for equal sets of nodes only; then the set is not made again. None is no such value.
        """
        before = self._of.pop(placement, None)
        known = before is not None and ((mark is not None and mark == self._marks[placement]) or before.listed == nodes)
        self._marks[placement] = mark
        if before is not None and known:
            before.listed = nodes
            self._of[placement] = before
        else:
            self._of[placement] = self._replace(before, frozenset(nodes), nodes)
        while len(self._of) > 1 and (len(self._of) > MOST_PLACEMENTS or self._held > MOST_NODES):
            oldest = next(iter(self._of))
            del self._marks[oldest]
            self._count(self._left(self._of.pop(oldest)), frozenset())

    def of(self, placement: str) -> frozenset[str] | None:
        """Return the latest candidates of a placement; None if none are known."""
        known = self._of.get(placement)
        return None if known is None else known.names

    def allowed(self, placement: str, node: str) -> bool:
        """Return whether pods of a placement may go to a node, as far as is known."""
        known = self._of.get(placement)
        return known is None or node in known.names

    @property
    def usable(self) -> frozenset[str] | None:
        """The nodes that pods of any placement may go to; None if none are known."""
        if self._usable is None and self._in:
            # A set that has all nodes is taken as it is: equal sets that are one object are compared fastest.
            whole = (names for names in self._sets if len(names) == len(self._in))
            self._usable = next(whole, None) or frozenset(self._in)
        return self._usable

    def _replace(self, before: _Nodes | None, names: frozenset[str], listed: Sequence[str]) -> _Nodes:
        """Note that a placement has other candidates than before, and return them."""
        now = self._sets.get(names)
        come: frozenset[str] = frozenset()
        if now is None:
            now, come = self._sets.setdefault(names, _Nodes(names, listed)), names
        now.placements += 1
        self._count(self._left(before), come)
        return now

    def _left(self, nodes: _Nodes | None) -> frozenset[str]:
        """Note that a placement has these nodes no more, and return them if no other has them, either."""
        if nodes is None:
            return frozenset()
        nodes.placements -= 1
        if nodes.placements:
            return frozenset()
        del self._sets[nodes.names]
        return nodes.names

    def _count(self, gone: frozenset[str], come: frozenset[str]) -> None:
        """Note that one set of nodes is gone, and another one has come."""
        if not (gone or come):
            return
        self._held += len(come) - len(gone)
        self._in.update(come - gone)
        for node in gone - come:
            self._in[node] -= 1
            if not self._in[node]:
                del self._in[node]
        self._usable = None
