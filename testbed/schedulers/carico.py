"""CARICO as a scheduler under test: its own plugin object inside the emulated framework.

Hard constraints (requests where stated, node affinity) are kube-scheduler's; among what passes, `carico.scheduling`
decides, exactly as the extender does in production.
"""

from __future__ import annotations

import numpy as np

from carico.scheduling.plugin import CaricoPlugin
from testbed.schedulers.resources_fit import ResourcesFit
from testbed.simulation.api import Pod
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import ClusterShape


class CaricoScheduler:
    """Places pods by reported Pod-Capacity less reservations.

    Parameters
    ----------
    names : list of str
        The nodes.
    shape : ClusterShape
    parameters : SimulationParameters
    """

    def __init__(self, names: list[str], shape: ClusterShape, parameters: SimulationParameters) -> None:
        self._names = names
        self._index = {name: index for index, name in enumerate(names)}
        self._fit = ResourcesFit(shape, parameters)
        self._plugin = CaricoPlugin()

    def report(self, node: int, pod_capacity: float) -> None:
        """Take in what the agent of a node reports."""
        self._plugin.report(self._names[node], pod_capacity)

    def select(self, pod: Pod) -> int | None:
        """Filter and score."""
        candidates = [self._names[node] for node in np.flatnonzero(self._fit.fits(pod)).tolist()]
        best = self._plugin.filter(candidates).best
        return None if best is None else self._index[best]

    def reserve(self, pod: Pod, node: int) -> None:
        """Reserve one pod's cost until the pod leaves Pending."""
        self._fit.add(pod, node)
        self._plugin.reserve(pod.uid, self._names[node])

    def pod_running(self, pod: Pod) -> None:
        """End the reservation."""
        self._plugin.release(pod.uid)

    def pod_finished(self, pod: Pod) -> None:
        """End the reservation of a pod that was never seen Running, and free its requests."""
        self._plugin.release(pod.uid)
        if pod.node is not None:
            self._fit.add(pod, pod.node, -1)

    def node_ready(self, node: int, ready: bool) -> None:
        """Take a node in, or out; what it reported before is not true of it when it comes back."""
        self._fit.ready[node] = ready
        if not ready:
            self._plugin.forget(self._names[node])
