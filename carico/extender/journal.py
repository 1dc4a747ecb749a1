"""The journal: one JSON line per decision, with everything that it was based on, in files that are rotated by size.

Writing neither delays a decision nor makes it fail: a thread writes, and decisions that cannot be written, because the
thread is too slow or the disk is full, are counted, and logged once. A file that somebody deletes, moves or replaces is
opened anew under its name; a symbolic link under that name is not followed. If there are many candidates, a line holds
the best and counts the others by kind; otherwise a cluster of thousands of nodes would fill a disk in minutes.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, Literal, Self

import msgspec
from msgspec import Meta

from carico.demand.decision import (
    CPU_FULL,
    DISK_FULL,
    KEPT_IDLE,
    MEMORY_FULL,
    NO_DEMAND,
    NO_REPORT,
    ROOM,
    TOO_OLD,
    DemandDecision,
    NodeRoom,
)
from carico.extender.api import PodId
from carico.files import not_following
from carico.scheduling.decision import Decision, NodeVerdict

_log = logging.getLogger(__name__)

_BACKLOG = 100
"""Decisions that may wait to be written; with 5,000 candidates each, they take 50 MB."""
_CLOSE_S = 5.0
"""How long writing the remaining decisions may take when the journal is closed."""
_LOOK_EVERY_S = 1.0
"""How often the journal looks whether its file is still the one under its name."""

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]


class Room(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node had left for a pod under the variant `demand`."""

    cores: Finite
    """How far the node's load was below the level to which it is filled."""
    gib: Finite
    needs_gib: Finite
    """How much memory had to be left."""
    idle: bool = False
    """Whether the node ran no pod: then it takes any pod."""
    critical: bool = False
    """Whether the node was kept half idle for a latency-critical pod."""
    reads: Finite | None = None
    """How many more reads the node's disks served at a time, less half of what the pod reads; absent if the pod was not
    known to read, or the disks were not known."""


class Amount(msgspec.Struct, frozen=True):
    """What a pod was believed to demand."""

    mean: Finite
    doubt: Finite
    """Standard deviation."""


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pod of a workload was believed to demand under the variant `demand`."""

    workload: str
    cores: Amount
    gib: Amount
    reads: Amount | None = None
    """Reads from disks under way; absent if the pod was not known to read."""


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was known about a node, and the verdict on it."""

    node: str
    pod_capacity: Finite | None = None
    """Pods; absent if the node never reported one."""
    reserved: Annotated[int, Meta(ge=0, le=10_000)] = 0
    age_s: Finite | None = None
    """Seconds since the report; absent if there was none."""
    score: Finite | None = None
    """Pod-Capacity less reservations; absent if it is not known, or too old. Under `demand`: see `room`."""
    room: Room | None = None
    """Under the variant `demand`; absent if the node had reported no demand."""
    refused: str = ""
    """The reason; empty if the node was not refused."""


class Entry(msgspec.Struct, frozen=True):
    """A decision."""

    schema_version: Literal[1]
    at: Annotated[float, Meta(ge=0, le=1e11)]
    """Seconds since 1970, UTC; a number past the year 5138 is not a time in seconds."""
    pod: PodId
    choice: str | None
    """The node on which a place was reserved."""
    stale_after_s: Annotated[float, Meta(gt=0)] | None
    """Older reports were not believed; null if reports of any age were."""
    candidates: list[Candidate]
    """In the order in which kube-scheduler sent the nodes."""
    omitted: dict[str, int] = {}
    """The number of other candidates, by kind (see `kind_of`)."""
    cost: Cost | None = None
    """Only under the variant `demand`."""


def kind_of(candidate: Candidate) -> str:
    """Return the kind that a candidate is counted under if it is not shown."""
    if candidate.pod_capacity is None:
        return "no capacity reported yet"
    if candidate.score is None:
        return "last report too old"
    return "has room" if candidate.score >= 1 else "capacity too small"


def demand_kind_of(candidate: Candidate, stale_after_s: float) -> str:
    """Return the same under the variant `demand`; see `carico.demand.decision.NodeRoom.verdict`."""
    if candidate.age_s is None:
        return NO_REPORT
    if candidate.age_s > stale_after_s:
        return TOO_OLD
    if not candidate.refused:
        return ROOM
    room = candidate.room
    if room is None:
        return NO_DEMAND
    if room.cores <= 0:
        return KEPT_IDLE if room.critical else CPU_FULL
    return MEMORY_FULL if room.gib < room.needs_gib else DISK_FULL


def entry(pod: PodId, decision: Decision | DemandDecision, at: float, limit: int) -> Entry:
    """Return the entry of a decision.

    Parameters
    ----------
    pod : PodId
    decision : Decision or DemandDecision
    at : float
        Seconds since 1970.
    limit : int
        How many candidates are kept: the best ones.
    """
    if isinstance(decision, DemandDecision):
        return _demand_entry(pod, decision, at, limit)
    best = decision.among_best(limit)
    return Entry(
        schema_version=1,
        at=at,
        pod=pod,
        choice=decision.best,
        stale_after_s=decision.stale_after_s if math.isfinite(decision.stale_after_s) else None,
        candidates=[_candidate(*both) for both in zip(best.verdicts, best.available.tolist(), strict=True)],
        omitted={} if best is decision else dict(decision.count_verdicts() - best.count_verdicts()),
    )


def _demand_entry(pod: PodId, decision: DemandDecision, at: float, limit: int) -> Entry:
    best = decision.among_best(limit)
    others = decision.count_verdicts() - best.count_verdicts() if best is not decision else {}
    cores, gib, reads = (
        Amount(each.mean, math.sqrt(each.variance)) for each in (decision.cores, decision.gib, decision.reads)
    )
    return Entry(
        schema_version=1,
        at=at,
        pod=pod,
        choice=decision.node,
        stale_after_s=decision.stale_after_s if math.isfinite(decision.stale_after_s) else None,
        candidates=[_demand_candidate(verdict, decision.stale_after_s) for verdict in best.verdicts],
        omitted=dict(others),
        cost=Cost(decision.workload, cores, gib, reads if reads.mean else None),
    )


class Journal:
    """Writes decisions in a separate thread.

    Parameters
    ----------
    file : Path
        The newest lines; older ones are in FILE.1, FILE.2 and so on.
    wall : callable
        Returns seconds since 1970.
    lost : callable
        Called with the number of decisions that could not be written.
    reopened : callable
        Called when the file is opened anew because it was deleted, moved or replaced.
    max_bytes : int
        A file that would grow larger is rotated.
    keep : int
        Number of rotated files that are kept.
    max_nodes : int
        Number of candidates in a line.
    """

    def __init__(
        self,
        file: Path,
        wall: Callable[[], float],
        lost: Callable[[int], None] = lambda count: None,
        reopened: Callable[[], None] = lambda: None,
        max_bytes: int = 64 << 20,
        keep: int = 4,
        max_nodes: int = 20,
    ) -> None:
        self._file = file
        self._wall = wall
        self._lost = lost
        self._reopened = reopened
        self._max_bytes = max_bytes
        self._keep = keep
        self._max_nodes = max_nodes
        self._out: IO[bytes] | None = None
        self._size = 0
        self._looked_at = -math.inf
        self._warned = self._warned_of_another = False
        self._decisions: queue.Queue[tuple[float, PodId, Decision | DemandDecision] | None] = queue.Queue(_BACKLOG)
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Return whether the thread that writes runs."""
        return self._thread.is_alive()

    def write(self, pod: PodId, decision: Decision | DemandDecision) -> None:
        """Take in a decision; returns at once and raises nothing."""
        try:
            self._decisions.put_nowait((self._wall(), pod, decision))
        except queue.Full:
            self._failed("writing is too slow")

    def close(self) -> None:
        """Write the waiting decisions, and end; a hanging disk delays this by a few seconds at most."""
        with suppress(queue.Full):
            self._decisions.put(None, timeout=_CLOSE_S)
            self._thread.join(_CLOSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        encode = msgspec.json.Encoder().encode
        while (item := self._decisions.get()) is not None:
            at, pod, decision = item
            try:
                if abs(at - self._looked_at) >= _LOOK_EVERY_S:  # the time of day may be set back
                    self._looked_at = at
                    self._give_up_another()
                self._append(encode(entry(pod, decision, at, self._max_nodes)) + b"\n")
            except OSError as error:
                self._give_up_file()
                self._failed(f"{self._file}: {error.strerror or error}")
        self._give_up_file()

    def _append(self, line: bytes) -> None:
        out = self._open() if self._out is None else self._out
        if self._size and self._size + len(line) > self._max_bytes:
            self._rotate()
            out = self._open()
        written = out.write(line)
        self._size += len(line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes could be written")

    def _open(self) -> IO[bytes]:
        try:
            out = self._out = open(self._file, "a+b", buffering=0, opener=not_following)  # noqa: SIM115
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise OSError("it is a symbolic link, which is not followed; name the file itself, or delete it") from error
        self._size = out.seek(0, os.SEEK_END)
        if self._size:
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":  # a crash or a full disk cut the last line short: begin a new one
                self._size += out.write(b"\n")
        return out

    def _rotate(self) -> None:
        self._give_up_file()
        for number in range(self._keep - 1, 0, -1):
            aside = self._aside(number)
            if aside.exists():
                aside.replace(self._aside(number + 1))
        if self._keep:
            self._file.replace(self._aside(1))
        else:
            self._file.unlink()

    def _give_up_another(self) -> None:
        """Give up the file if it is no longer the one under the journal's name: lines in it would be lost."""
        if self._out is None:
            return
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._out.fileno()), self._file.lstat()):
                return
        self._give_up_file()
        self._reopened()
        if not self._warned_of_another:
            self._warned_of_another = True
            _log.warning("the journal %s was deleted, moved or replaced: opening it anew", self._file)

    def _aside(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")

    def _give_up_file(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None

    def _failed(self, why: str) -> None:
        self._lost(1)
        if not self._warned:
            self._warned = True
            _log.warning("decisions are made, but not written to the journal: %s", why)


def _demand_candidate(node: NodeRoom, stale_after_s: float) -> Candidate:
    """Return a candidate of the variant `demand`; a node that reports no demand only has a Pod-Capacity."""
    known = not math.isnan(node.age_s)
    tells = not math.isnan(node.cores)
    return Candidate(
        node.node,
        pod_capacity=None if math.isnan(node.pods) else node.pods,
        age_s=node.age_s if known else None,
        score=None if math.isnan(node.pods) or node.age_s > stale_after_s else node.pods,
        room=_room(node) if tells else None,
        refused=node.reason(stale_after_s),
    )


def _room(node: NodeRoom) -> Room:
    reads = node.reads if math.isfinite(node.reads) else None
    return Room(node.cores, node.gib, node.needs_gib, node.idle, node.critical, reads)


def _candidate(verdict: NodeVerdict, score: float) -> Candidate:
    return Candidate(
        verdict.node,
        pod_capacity=verdict.pod_capacity,
        reserved=verdict.reserved,
        age_s=None if verdict.pod_capacity is None else verdict.age_s,
        score=score if math.isfinite(score) else None,
        refused="" if score >= 1 else verdict.reason,
    )
