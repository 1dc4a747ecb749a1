"""NodeResourcesFit's filter: which nodes can hold a pod's requests. All schedulers under test apply it."""

from __future__ import annotations

import numpy as np

from carico.arrays import BoolArray, IntArray
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import ClusterShape

DEFAULT_MILLICPU = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
"""The requests that kube-scheduler assumes, only for scoring, for a pod without requests."""


class ResourcesFit:
    """Requested resources per node, as kube-scheduler's cache counts them.

    Parameters
    ----------
    shape : ClusterShape
    parameters : SimulationParameters
        For the requests of the platform's own pods.
    """

    def __init__(self, shape: ClusterShape, parameters: SimulationParameters) -> None:
        each_node = shape.each_node
        nodes = len(each_node)
        platform_memory = parameters.platform_memory_mib * 2**20
        self.allocatable: IntArray = np.array([(round(1000 * node.cores), node.memory_bytes) for node in each_node])
        """CPU (millicores) and memory (bytes) of every node, shape (nodes, 2)."""
        self.requested: IntArray = np.tile(np.array([parameters.platform_millicpu, platform_memory]), (nodes, 1))
        self.assumed: IntArray = self.requested.copy()
        """The same with defaults for pods that request nothing, from which scores are computed."""
        self.pods: IntArray = np.zeros(nodes, dtype=np.int64)
        self.ready: BoolArray = np.ones(nodes, dtype=np.bool_)
        """Nodes that take pods."""
        self._max_pods: IntArray = np.array([node.max_pods for node in each_node])
        self._first: BoolArray = np.arange(nodes) == 0

    def fits(self, pod: Pod) -> BoolArray:
        """Return which nodes have room for the pod's requests and satisfy its node affinity."""
        room = self.allocatable - self.requested
        fits: BoolArray = (room[:, 0] >= pod.millicpu) & (room[:, 1] >= pod.memory_bytes) & (self.pods < self._max_pods)
        fits &= self.ready
        if pod.job.placement != "any":
            fits &= self._first if pod.job.placement == "first" else ~self._first
        return fits

    def add(self, pod: Pod, node: int, sign: int = 1) -> None:
        """Add a pod to a node, or remove it with sign -1."""
        self.requested[node] += sign * np.array([pod.millicpu, pod.memory_bytes])
        self.assumed[node] += sign * assumed_requests(pod)
        self.pods[node] += sign


def assumed_requests(pod: Pod) -> IntArray:
    """Return the CPU and memory that scoring assumes a pod to request."""
    return np.array([pod.millicpu or DEFAULT_MILLICPU, pod.memory_bytes or DEFAULT_MEMORY_BYTES])
