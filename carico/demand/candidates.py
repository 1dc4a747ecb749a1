"""Which nodes pods may go to, as far as requests have shown. Pure.

A node with room is of no use to pods that may not go there, because it belongs to the control plane or to another zone.
kube-scheduler evaluates these rules (selectors, affinity, taints), and its requests name the nodes that are left.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

MOST_PLACEMENTS = 1000
"""Placements that are remembered; the one noted the longest ago is forgotten first."""


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
        self._of: dict[str, Sequence[str]] = {}
        self._marks: dict[str, Hashable] = {}
        self._sets: dict[str, frozenset[str]] = {}
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
        self._of[placement] = nodes
        known = mark is not None and mark == self._marks.get(placement)
        self._marks[placement] = mark
        if not known and before != nodes:
            self._sets[placement] = frozenset(nodes)
            self._usable = None
        while len(self._of) > MOST_PLACEMENTS:
            oldest = next(iter(self._of))
            del self._of[oldest], self._sets[oldest], self._marks[oldest]
            self._usable = None

    def of(self, placement: str) -> Sequence[str] | None:
        """Return the latest candidates of a placement; None if none are known."""
        return self._of.get(placement)

    def set_of(self, placement: str) -> frozenset[str]:
        """Return the latest candidates of a placement as a set; `usable` if none are known."""
        known = self._sets.get(placement)
        return self.usable if known is None else known

    def allowed(self, placement: str, node: str) -> bool:
        """Return whether pods of a placement may go to a node, as far as is known."""
        known = self._sets.get(placement)
        return known is None or node in known

    @property
    def usable(self) -> frozenset[str]:
        """The nodes that pods of any placement may go to; empty if none are known."""
        if self._usable is None:
            sets = set(self._sets.values())
            self._usable = sets.pop() if len(sets) == 1 else frozenset().union(*sets)
        return self._usable
