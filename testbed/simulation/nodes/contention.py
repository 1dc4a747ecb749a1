"""The contention of a task in a tick: competing threads on its node, and how much longer its work took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carico.arrays import BoolArray, FloatArray, IntArray
from testbed.simulation.nodes.tasks import NOTHING_S, Tasks, per_node


@dataclass(frozen=True, eq=False)
class Contention:
    """The contention of several tasks; all arrays have the shape (tasks,)."""

    cores: FloatArray
    runnable: FloatArray
    """Threads of other tasks that ran or wanted to."""
    weighed: FloatArray
    """The same, with the threads of pods weighted relative to the task's own weight; other threads count as one."""
    stretch: FloatArray
    """How much longer the work took than on a free CPU of speed 1."""


@dataclass(frozen=True, eq=False)
class Tick:
    """The tasks of a tick, shape (tasks,) each, and the CPUs that the nodes had in it, shape (nodes,) each."""

    task: IntArray
    node: IntArray
    threads: FloatArray
    system: BoolArray
    weight: FloatArray
    rate: FloatArray
    """CPUs that a task got."""
    cores: FloatArray
    speed: FloatArray

    def contention(self, tasks: Tasks, of: IntArray) -> Contention:
        """Return the contention of the containers in the rows `of`; of later ones, as if they had been there."""
        node, weight, nodes = tasks.node[of], tasks.weight[of], self.cores.size
        place = np.full(tasks.node.size, -1)
        place[self.task] = np.arange(self.task.size)
        there = place[of] >= 0
        threads = np.where(there, self.threads[place[of]], 0.0)
        granted = np.where(there, self.rate[place[of]] / np.maximum(threads, NOTHING_S), 1.0)
        of_pods = per_node(self.node, np.where(self.system, 0.0, self.threads * self.weight), nodes)
        of_system = per_node(self.node, np.where(self.system, self.threads, 0.0), nodes)
        return Contention(
            cores=self.cores[node],
            runnable=np.maximum(per_node(self.node, self.threads, nodes)[node] - threads, 0.0),
            weighed=np.maximum(of_pods[node] / weight - threads, 0.0) + of_system[node],
            stretch=1.0 / np.maximum(granted * self.speed[node], NOTHING_S),
        )
