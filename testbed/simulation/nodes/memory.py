"""Memory of the nodes: what tasks hold of it, what a reading shows, and which container the OOM killer chooses.

Memory is not swapped, and only containers of pods are killed for it.
"""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray, IntArray
from testbed.simulation.nodes.tasks import Tasks, per_node
from testbed.simulation.parameters import SimulationParameters


class NodeMemory:
    """Memory of all nodes, bytes.

    Parameters
    ----------
    total : ndarray, shape (nodes,)
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the fluctuation of readings.
    """

    def __init__(self, total: FloatArray, parameters: SimulationParameters, rng: np.random.Generator) -> None:
        self.total = total
        self._background: FloatArray = parameters.background_memory * total
        self._parameters = parameters
        self._rng = rng
        self._used = self._background.copy()
        self._noise: FloatArray = np.zeros(total.size)

    @property
    def shown(self) -> FloatArray:
        """Used memory as a reading shows it, shape (nodes,): with a fluctuation that never causes a kill."""
        return np.clip(self._used + self._noise, 0.0, self.total)

    @property
    def exhausted(self) -> IntArray:
        """Nodes whose tasks hold more memory than there is."""
        return np.flatnonzero(self._used > self.total)

    def fluctuate(self) -> None:
        """Draw the fluctuation of this tick's readings."""
        parameters = self._parameters
        if parameters.background_memory_variation:
            spread = parameters.background_memory_variation * parameters.background_memory
            self._noise = self.total * self._rng.normal(0.0, spread, self.total.size)

    def update(self, tasks: Tasks, active: IntArray, node: IntArray) -> None:
        """Let the memory of the active tasks, which are on the given nodes, grow with the work they have done."""
        peak, start = tasks.memory_peak[active], tasks.memory_start[active]
        grown = np.minimum(tasks.done[active] / tasks.memory_ramp[active], 1.0)
        resident = start + (peak - start) * grown
        tasks.resident[active] = resident
        self._used = self._background + per_node(node, resident, self.total.size)

    def release(self, tasks: Tasks, task: int) -> None:
        """Free the memory of a task that is over."""
        self._used[tasks.node[task]] -= tasks.resident[task]
        tasks.resident[task] = 0.0

    def victim(self, tasks: Tasks, node: int) -> int | None:
        """Return the container with the highest badness, if the node's tasks hold more memory than it has."""
        here = tasks.of_node(node)
        containers = here[~tasks.system[here]]
        if self._used[node] <= self.total[node] or not containers.size:
            return None
        badness = 1000.0 * tasks.resident[containers] / self.total[node] + tasks.oom_adj[containers]
        return int(containers[np.argmax(badness)])
