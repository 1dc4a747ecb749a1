"""The outcome of filtering the nodes for a pod: how much room each node has, and what the pod needs there. Pure.

As in `carico.scheduling.decision`, a decision is one sweep over arrays; names and reasons are assembled on request.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.demand.regression import Estimate

NO_READS = Estimate(0.0, 0.0)
NO_REPORT = "no report yet"
TOO_OLD = "last report too old"
NO_DEMAND = "reports no demand"
CPU_FULL = "CPU full"
KEPT_IDLE = "kept half idle"
MEMORY_FULL = "memory full"
DISK_FULL = "disk saturated"
ROOM = "has room"


class Rooms(NamedTuple):
    """What n nodes offer a pod, and what the pod needs there: the columns of `NodeRoom`, (n,)."""

    room: FloatArray
    room_gib: FloatArray
    needs_gib: FloatArray
    pods: FloatArray
    idle: BoolArray
    critical: BoolArray
    age_s: FloatArray
    reads: FloatArray

    def fits(self, stale_after_s: float) -> BoolArray:
        """Return whether each node has room for the pod, (n,)."""
        fits = (self.room > 0) & (self.room_gib >= self.needs_gib) & (self.reads >= 0) | self.idle | (self.pods >= 1)
        answer: BoolArray = fits & (self.age_s <= stale_after_s)
        return answer

    def of(self, rows: IntArray) -> Rooms:
        """Return the rooms of some of the nodes."""
        return Rooms._make(column[rows] for column in self)


class NodeRoom(NamedTuple):
    """What was known about a node when a pod was decided on; NaN is unknown."""

    node: str
    cores: float
    """How far the node's load is below the level to which it is filled, cores; if the node is kept half idle, less the
    pod's own demand."""
    gib: float
    """How far the memory that the node holds is below its limit, GiB."""
    needs_gib: float
    """Memory that the pod may hold, with a margin for doubt, GiB."""
    pods: float
    """How many more pods the node takes, if it reports no demand."""
    idle: bool
    """Whether the node runs no pod: then it takes any pod."""
    critical: bool
    """Whether the node is kept half idle for a latency-critical pod: then the pod must fit as a whole."""
    age_s: float
    """Seconds since the node reported."""
    reads: float
    """How many more reads the node's disks serve at a time, less half of what the pod reads; infinite if it reads
    nothing, or the disks are not known."""

    def verdict(self, stale_after_s: float) -> str:
        """Return the kind of the verdict, one of this module's constants."""
        if math.isnan(self.age_s):
            return NO_REPORT
        if self.age_s > stale_after_s:
            return TOO_OLD
        if not math.isnan(self.pods):
            return ROOM if self.pods >= 1 else NO_DEMAND
        if self.idle:
            return ROOM
        if not self.cores > 0:
            return KEPT_IDLE if self.critical else CPU_FULL
        if not self.gib >= self.needs_gib:
            return MEMORY_FULL
        return ROOM if self.reads >= 0 else DISK_FULL

    def reason(self, stale_after_s: float) -> str:
        """Return why the node was refused; empty if it was not."""
        verdict = self.verdict(stale_after_s)
        # Available memory is rounded down and needed memory up: the two numbers must not look the same.
        if verdict == KEPT_IDLE:
            return f"kept half idle for a latency-critical pod: {abs(self.cores):.2f} cores are lacking"
        if verdict == CPU_FULL:
            return f"CPU full: its load is {abs(self.cores):.2f} cores above its level"
        if verdict == MEMORY_FULL:
            return f"needs {math.ceil(100 * self.needs_gib) / 100:.2f} GiB, has {_down(self.gib)}"
        if verdict == DISK_FULL:
            return f"disk saturated: with the pod, {-self.reads:.2f} more reads would be under way than it serves"
        if verdict == TOO_OLD:
            return f"last report {self.age_s:.0f} s ago"
        if verdict == NO_DEMAND:
            return f"reports no demand (its agent is older, or of another variant), and takes {_down(self.pods)} pods"
        return "" if verdict == ROOM else verdict


def _down(value: float) -> str:
    return f"{max(math.floor(100 * value) / 100, 0.0):.2f}"


@dataclass(frozen=True, eq=False)
class DemandDecision:
    """A filter's outcome, for n candidates in the order of the request."""

    nodes: Sequence[str]
    rows: IntArray
    """Where `offers` has the candidates, (n,)."""
    workload: str
    cores: Estimate
    """CPU that the pod demands."""
    gib: Estimate
    """Memory that the pod holds at its peak."""
    offers: Rooms
    """The rooms of all nodes, candidates or not."""
    stale_after_s: float
    hold_s: float = 0.0
    """If no node has room: decide again when anything has changed, or after this time; 0 refuses the pod now."""
    reads: Estimate = NO_READS
    """Reads from disks that the pod has under way."""

    @cached_property
    def rooms(self) -> Rooms:
        """The rooms of the candidates."""
        return self.offers.of(self.rows)

    @cached_property
    def fits(self) -> BoolArray:
        """Whether each candidate has room for the pod, (n,)."""
        return self.rooms.fits(self.stale_after_s)

    @cached_property
    def best_index(self) -> int | None:
        """Index of the candidate with the most room, or of the first of several; None if no candidate has room."""
        if not self.nodes:
            return None
        room = np.where(self.offers.fits(self.stale_after_s), self.offers.room, -np.inf)[self.rows]
        index = int(room.argmax())
        if math.isnan(room[index]):
            # Nodes that report no demand come last, because their load is not known.
            index = int(np.where(np.isnan(room), -np.finfo(np.float64).max, room).argmax())
        return None if room[index] == -np.inf else index

    @property
    def node(self) -> str | None:
        """The candidate with the most room; None if none has room."""
        index = self.best_index
        return None if index is None else self.nodes[index]

    def verdict(self, index: int) -> NodeRoom:
        """Return what was known about one candidate."""
        row = self.rows[index]
        return NodeRoom(self.nodes[index], *(column[row].item() for column in self.offers))

    @property
    def verdicts(self) -> tuple[NodeRoom, ...]:
        """What was known about all candidates."""
        return tuple(map(NodeRoom, self.nodes, *(column.tolist() for column in self.rooms)))

    @property
    def refused(self) -> dict[str, str]:
        """Why candidates without room were refused, by node."""
        out = np.flatnonzero(~self.fits)
        # Thousands of full nodes share a few texts: each text is made once, and its key are the numbers that it shows.
        rooms = self.rooms
        shown = np.stack(
            [rooms.room, rooms.room_gib, rooms.needs_gib, rooms.pods, rooms.reads, rooms.age_s, rooms.critical]
        )[:, out]
        shown[:5] = np.round(100 * shown[:5])
        key = np.nan_to_num(np.round(shown), nan=-1.0).T
        _, first, group = np.unique(key, axis=0, return_index=True, return_inverse=True)
        texts = [self.verdict(index).reason(self.stale_after_s) for index in out[first].tolist()]
        return {self.nodes[i]: texts[number] for i, number in zip(out.tolist(), group.ravel().tolist(), strict=True)}

    def among_best(self, limit: int) -> DemandDecision:
        """Return the same decision with the `limit` best candidates only."""
        if len(self.nodes) <= limit:
            return self
        # What a node offered long ago says little about it.
        late = self.rooms.age_s > self.stale_after_s
        rank = np.where(self.fits, 1e9, np.where(late, -1e8, 0.0)) + np.nan_to_num(self.rooms.room, nan=-1e9)
        rows = np.sort(np.argsort(-rank, kind="stable")[:limit])
        return replace(self, nodes=[self.nodes[row] for row in rows.tolist()], rows=self.rows[rows])

    def count_verdicts(self) -> Counter[str]:
        """Count the candidates by verdict."""
        return Counter(each.verdict(self.stale_after_s) for each in self.verdicts)
