"""kube-scheduler's default decision, emulated: NodeResourcesFit (LeastAllocated) and BalancedAllocation, weight 1 each.

The other default score plugins give every node of a homogeneous cluster the same score. Above 100 nodes only a part
of them is scored, as kube-scheduler does (`percentageOfNodesToScore` unset).
"""

from __future__ import annotations

import numpy as np

from carico.arrays import IntArray
from testbed.schedulers.spec import KubeSchedulerSpec
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.resources_fit import ResourcesFit, assumed_requests
from testbed.simulation.schedulers.under_test import Site, UnderTest
from workloads.scenario import ClusterShape

MIN_FEASIBLE_NODES = 100


def put_kube_scheduler(site: Site, spec: KubeSchedulerSpec) -> UnderTest:
    """Return kube-scheduler, which has no agents."""
    return UnderTest(KubeScheduler(site.shape, site.parameters, site.scheduler_rng), site.parameters)


class KubeScheduler:
    """The default profile.

    Parameters
    ----------
    shape : ClusterShape
    parameters : SimulationParameters
    rng : numpy.random.Generator
        Ties are broken at random, as kube-scheduler does.
    """

    is_extender = False

    def __init__(self, shape: ClusterShape, parameters: SimulationParameters, rng: np.random.Generator) -> None:
        self._fit = ResourcesFit(shape, parameters)
        self._rng = rng
        self._next_start = 0

    def pod_created(self, pod: Pod) -> None:
        """Do nothing: the queues are the framework's."""

    def select(self, pod: Pod) -> int | None:
        """Filter, score and pick one of the best nodes."""
        best = self.best(pod)
        if not best.size:
            return None
        return int(best[self._rng.integers(best.size)]) if best.size > 1 else int(best[0])

    def best(self, pod: Pod) -> IntArray:
        """Filter and score; return the nodes that share the highest score, or none if the pod fits nowhere."""
        candidates = self._feasible(pod)
        if not candidates.size:
            return candidates
        scores = self._score(pod, candidates)
        best: IntArray = candidates[scores == scores.max()]
        return best

    def held(self, pod: Pod) -> None:
        """Return None: a pod without a node is refused at once."""

    def reserve(self, pod: Pod, node: int) -> None:
        """Assume the pod on the node."""
        self._fit.add(pod, node)

    def pod_bound(self, pod: Pod) -> None:
        """Do nothing: requests count the same before and after."""

    def pod_running(self, pod: Pod) -> None:
        """Do nothing, as in `pod_bound`."""

    def pod_finished(self, pod: Pod) -> None:
        """Free the pod's requests."""
        if pod.node is not None:
            self._fit.add(pod, pod.node, -1)

    def node_ready(self, node: int, ready: bool) -> None:
        """Let a node take pods, or none."""
        self._fit.ready[node] = ready

    def _feasible(self, pod: Pod) -> IntArray:
        """Return feasible nodes, but no more than kube-scheduler looks for (`numFeasibleNodesToFind`)."""
        fits = self._fit.fits(pod)
        nodes = fits.size
        if nodes <= MIN_FEASIBLE_NODES:
            return np.flatnonzero(fits)
        percentage = max(50 - nodes // 125, 5)
        wanted = max(nodes * percentage // 100, MIN_FEASIBLE_NODES)
        order = (self._next_start + np.arange(nodes)) % nodes
        found = np.flatnonzero(fits[order])[:wanted]
        examined = nodes if found.size < wanted else int(found[-1]) + 1
        self._next_start = (self._next_start + examined) % nodes
        return order[found]

    def _score(self, pod: Pod, candidates: IntArray) -> IntArray:
        allocatable = self._fit.allocatable[candidates]
        assumed = np.minimum(self._fit.assumed[candidates] + assumed_requests(pod), allocatable)
        # Integer arithmetic, as in Go: the mean of whole per-cent figures, rounded down.
        least_allocated = ((allocatable - assumed) * 100 // allocatable).sum(axis=1) // 2
        if not (pod.millicpu or pod.memory_bytes):
            return np.asarray(least_allocated, dtype=np.int64)
        # BalancedAllocation uses requests without defaults, and leaves out BestEffort pods.
        requested = self._fit.requested[candidates] + np.array([pod.millicpu, pod.memory_bytes])
        used = np.minimum(requested / allocatable, 1.0)
        balanced = ((1.0 - np.abs(used[:, 0] - used[:, 1]) / 2) * 100).astype(np.int64)
        return np.asarray(least_allocated + balanced, dtype=np.int64)
