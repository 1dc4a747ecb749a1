"""The tasks of all nodes, in columns of numpy arrays, from the moment a task is added until it is removed.

A task is a pod's container, a burst of the container runtime, or the platform's background load. The row of a removed
task is used again. How fast tasks progress is decided in `fleet`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from carico.arrays import BoolArray, FloatArray, IntArray
from workloads.demand import Demand

NOTHING_S = 1e-9
"""CPU-seconds below which the remaining work is a rounding error: the task is over, and does not wait a tick longer."""

Ended = Callable[[float, str], None]
"""Called when a task ends, with the time and with "done", "oom_killed" or (if its node failed) "lost"."""


@dataclass(frozen=True)
class ContainerWeights:
    """What decides a container's share of CPU, and whether it is killed when memory runs out."""

    cpu_weight: float
    """cgroup v2 weight of the pod."""
    oom_score_adj: float
    """The kubelet's oom_score_adj, -1000 to 1000; a higher one is killed earlier."""


class Tasks:
    """The tasks, one row each; the public arrays are the columns.

    Parameters
    ----------
    nodes : int
    """

    def __init__(self, nodes: int) -> None:
        rows = 64
        self.node: IntArray = np.zeros(rows, dtype=np.int64)
        self.system: BoolArray = np.zeros(rows, dtype=np.bool_)
        """Whether the task is in system.slice, that is, not a pod's container."""
        self.alive: BoolArray = np.zeros(rows, dtype=np.bool_)
        self.left: FloatArray = np.zeros(rows)
        """CPU-seconds to go."""
        self.done: FloatArray = np.zeros(rows)
        """CPU-seconds done."""
        self.used: FloatArray = np.zeros(rows)
        """CPU time used, seconds: more than what is done where CPUs are slow, or contended."""
        self.waited: FloatArray = np.zeros(rows)
        """For how long at least one thread has waited for a CPU, seconds."""
        self.threads: FloatArray = np.zeros(rows)
        self.weight: FloatArray = np.zeros(rows)
        self.loss: FloatArray = np.zeros(rows)
        """Share of the task's CPU that is lost at full pressure."""
        self.phase: IntArray = np.zeros(rows, dtype=np.int64)
        self.phase_left: FloatArray = np.zeros(rows)
        self.phase_threads: FloatArray = np.zeros((rows, 2))
        self.phase_work: FloatArray = np.zeros((rows, 2))
        self.memory_peak: FloatArray = np.zeros(rows)
        self.memory_start: FloatArray = np.zeros(rows)
        self.memory_ramp: FloatArray = np.zeros(rows)
        """CPU-seconds in which memory grows from its start to its peak."""
        self.resident: FloatArray = np.zeros(rows)
        self.oom_adj: FloatArray = np.zeros(rows)
        self.read_bytes: FloatArray = np.zeros(rows)
        """Bytes to read from the node's disk in each CPU-second of work."""
        self.reading: FloatArray = np.zeros(rows)
        """Share of the time in which the task's threads wait for the disk."""
        self._columns = list(vars(self))
        self._containers: IntArray = np.zeros(nodes, dtype=np.int64)
        self._ended: dict[int, Ended] = {}
        self._free: list[int] = []
        self._used = 0
        self._active: IntArray | None = None

    @property
    def active(self) -> IntArray:
        """The rows of all tasks that are alive, ascending."""
        if self._active is None:
            self._active = np.flatnonzero(self.alive[: self._used])
        return self._active

    @property
    def containers(self) -> IntArray:
        """How many containers of pods every node has, shape (nodes,)."""
        return self._containers

    def of_node(self, node: int) -> IntArray:
        """Return the rows of a node's tasks, ascending."""
        here: IntArray = self.active[self.node[self.active] == node]
        return here

    def add(self, node: int, work: float, threads: float, ended: Ended | None = None, *, system: bool) -> int:
        """Add a task of `work` CPU-seconds and return its row; `ended` is called when the task is over."""
        if self._free:
            task = self._free.pop()
        else:
            if self._used == self.node.size:
                self._grow()
            task = self._used
            self._used += 1
        for name in self._columns:
            getattr(self, name)[task] = 0
        self.node[task] = node
        self.system[task] = system
        self.alive[task] = True
        self.left[task] = work
        self.threads[task] = threads
        self.weight[task] = 1.0
        self.phase_left[task] = math.inf
        self.memory_ramp[task] = 1.0
        self._containers[node] += not system
        if ended is not None:
            self._ended[task] = ended
        self._active = None
        return task

    def add_container(self, node: int, demand: Demand, work: float, weights: ContainerWeights, ended: Ended) -> int:
        """Add a pod's container, which does `work` CPU-seconds as its demand model says, and return its row."""
        first, last = demand.phases[0], demand.phases[-1]
        task = self.add(node, work, first.threads, ended, system=False)
        self.weight[task] = weights.cpu_weight
        self.loss[task] = demand.contention_loss
        self.oom_adj[task] = weights.oom_score_adj
        cycle = work / demand.cycles if math.isfinite(work) else math.inf
        self.phase_threads[task] = (first.threads, last.threads)
        self.phase_work[task] = (cycle * first.share, cycle * last.share)
        self.phase_left[task] = self.phase_work[task, 0] if len(demand.phases) == 2 else math.inf
        if demand.read_bytes:
            self.read_bytes[task] = demand.read_bytes / demand.cpu_seconds
        self.memory_peak[task] = demand.memory_bytes
        ramp = demand.memory_ramp * work if math.isfinite(work) else 0.0
        self.memory_start[task] = demand.initial_memory_bytes if ramp else demand.memory_bytes
        self.memory_ramp[task] = ramp or 1.0
        return task

    def remove(self, task: int) -> Ended | None:
        """Remove a task and return its callback, which is not called here."""
        self.alive[task] = False
        self._containers[self.node[task]] -= not self.system[task]
        self._free.append(task)
        self._active = None
        return self._ended.pop(task, None)

    def _grow(self) -> None:
        """Double the number of rows."""
        for name in self._columns:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))


def per_node(node: IntArray, amounts: FloatArray, nodes: int) -> FloatArray:
    """Return the sum of the tasks' amounts on every node, shape (nodes,)."""
    return np.bincount(node, amounts, nodes).astype(np.float64, copy=False)
