"""The disks of the nodes: how fast tasks read from them side by side, and what the kernel counts of it.

A fluid model of synchronous reads: every thread computes and waits for the disk in turn. A disk serves a number of
streams at their full speed; what is more than that shares the same throughput. A disk with an arm loses time whenever
it turns from one stream to another. Nothing is cached, nothing is written, and no read is made in advance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from carico.arrays import FloatArray, IntArray
from carico.telemetry.counters import SECTORS_PER_READ
from testbed.simulation.nodes.tasks import NOTHING_S, Tasks, per_node
from workloads.scenario import DiskKind

SECTOR_BYTES = 512
READ_BYTES = 128 * 1024
"""The size of a read: the kernel's default read_ahead_kb."""


class _Kind(NamedTuple):
    """A kind of disk."""

    bytes_per_s: float
    """Speed of a stream that has the disk to itself."""
    streams: float
    """Streams that the disk serves at this speed."""
    turn_bytes: float
    """What is read of a stream before the disk turns to another one."""
    switch_s: float
    """Time that the disk loses when it turns to another stream."""


KINDS: dict[DiskKind, _Kind] = {
    # Data sheets of drives with 7200 rpm: 150 to 250 MB/s, a seek of 8.5 ms and half a revolution of 4.2 ms on average.
    # The turn is assumed: eight windows of read-ahead, which the kernel's scheduler and the drive's cache merge.
    "hdd": _Kind(150 * 2**20, 1.0, 8 * READ_BYTES, 0.012),
    # A solid-state disk on PCIe: a few hundred MB/s per synchronous stream, and several times as much in all.
    "ssd": _Kind(250 * 2**20, 8.0, READ_BYTES, 0.0),
}
"""Kinds of disks by the names that scenarios use: typical sizes, not measured."""


class Disks:
    """The disks of all nodes.

    Parameters
    ----------
    kinds : sequence
        The kind of every node's disk; None for a node without one.
    """

    def __init__(self, kinds: Sequence[DiskKind | None]) -> None:
        columns = [_Kind(1.0, 1.0, 1.0, 0.0) if kind is None else KINDS[kind] for kind in kinds]
        self._bytes_per_s, self._streams, turn_bytes, self._switch_s = np.array(columns, dtype=np.float64).T
        self._turn_s: FloatArray = turn_bytes / self._bytes_per_s
        self.reading_s: FloatArray = np.zeros(len(kinds))
        """How long threads of each node have waited for its disk, in all, since the node booted."""
        self.read_work: FloatArray = np.array([0.0 if kind is None else 1.0 for kind in kinds])
        """What was read on each node, see `Counters.disk_read_work`; a node with a disk has booted from it."""

    def begin(self, tasks: Tasks, task: int) -> None:
        """Let a task begin as if it had CPU and disk to itself."""
        reads_s = tasks.read_bytes[task] / self._bytes_per_s[tasks.node[task]]
        tasks.reading[task] = reads_s / (1.0 + reads_s)

    def advance(
        self, tasks: Tasks, active: IntArray, node: IntArray, threads: FloatArray, rate: FloatArray, dt: float
    ) -> None:
        """Let tasks read for a tick, and note which share of their time they wait for the disk from now on.

        Parameters
        ----------
        tasks : Tasks
            Their `reading` is updated.
        active, node : ndarray of int, shape (active,)
            The rows of the tasks that run, and their nodes.
        threads : ndarray, shape (active,)
            The tasks' threads that do not wait for the disk.
        rate : ndarray, shape (active,)
            Work that these threads do per second, CPU-seconds.
        dt : float
            Length of the tick, seconds.
        """
        waiting = per_node(node, tasks.threads[active] - threads, self._streams.size)
        served = self.served(waiting)
        self.reading_s += waiting * dt
        read_bytes = per_node(node, rate * tasks.read_bytes[active], self._streams.size) * dt
        self.read_work += read_bytes * (SECTORS_PER_READ / READ_BYTES + 1 / SECTOR_BYTES)
        speed = np.divide(served, waiting, out=np.ones_like(served), where=waiting > 0)
        # A thread's time for a CPU-second of work: computing, and reading.
        computes_s = threads / np.maximum(rate, NOTHING_S)
        reads_s = tasks.read_bytes[active] / (self._bytes_per_s * np.maximum(speed, NOTHING_S))[node]
        tasks.reading[active] = reads_s / np.maximum(computes_s + reads_s, NOTHING_S)

    def served(self, waiting: FloatArray) -> FloatArray:
        """Return how many threads each disk serves at full speed, out of so many that wait for it."""
        others = 1.0 - 1.0 / np.maximum(waiting, 1.0)
        efficiency = self._turn_s / (self._turn_s + self._switch_s * others)
        served: FloatArray = np.minimum(waiting, self._streams) * efficiency
        return served
