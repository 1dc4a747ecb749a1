"""CARICO as a scheduler under test: its own plugin object inside the emulated framework.

Hard constraints (requests where stated, node affinity) are kube-scheduler's; among what passes, `carico.scheduling`
decides, exactly as the extender does in production. If the variant says so, it also decides when refused pods are tried
again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.wake_up import WakeUp
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.resources_fit import ResourcesFit
from workloads.scenario import ClusterShape


class CaricoScheduler:
    """Places pods by reported Pod-Capacity less reservations.

    Parameters
    ----------
    names : list of str
        The nodes.
    shape : ClusterShape
    parameters : SimulationParameters
    wake : callable, optional
        Called with a node that has room again, so that refused pods are tried again.
    now : callable, optional
        The time, seconds; needed with `wake`, whose rate is limited.
    """

    def __init__(
        self,
        names: list[str],
        shape: ClusterShape,
        parameters: SimulationParameters,
        wake: Callable[[int], None] | None = None,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._names = names
        self._index = {name: index for index, name in enumerate(names)}
        self._fit = ResourcesFit(shape, parameters)
        self._plugin = CaricoPlugin()
        self._wake = wake
        self._now = now
        self._wake_up = WakeUp()
        self._refused: set[Pod] = set()
        """Pods for which the last attempt found no node."""

    def report(self, node: int, pod_capacity: float) -> None:
        """Take in the report of a node's agent."""
        self._plugin.report(self._names[node], pod_capacity)
        self._observe(node)

    def select(self, pod: Pod) -> int | None:
        """Filter and score."""
        candidates = [self._names[node] for node in np.flatnonzero(self._fit.fits(pod)).tolist()]
        best = self._plugin.filter(candidates).best
        if best is None:
            self._refused.add(pod)
            return None
        self._refused.discard(pod)
        return self._index[best]

    def reserve(self, pod: Pod, node: int) -> None:
        """Reserve one pod's cost until the pod leaves Pending."""
        self._fit.add(pod, node)
        self._plugin.reserve(pod.uid, self._names[node])
        self._observe(node)

    def pod_running(self, pod: Pod) -> None:
        """End the reservation."""
        self._release(pod)

    def pod_finished(self, pod: Pod) -> None:
        """End the reservation of a pod that was never seen Running, and free its requests."""
        self._release(pod)
        if pod.node is not None:
            self._fit.add(pod, pod.node, -1)

    def node_ready(self, node: int, ready: bool) -> None:
        """Let a node take pods, or none; what a lost node reported is forgotten."""
        self._fit.ready[node] = ready
        if not ready:
            self._plugin.forget(self._names[node])
            self._wake_up.forget(self._names[node])

    def _release(self, pod: Pod) -> None:
        self._plugin.release(pod.uid)
        if pod.node is not None:
            self._observe(pod.node)

    def _observe(self, node: int) -> None:
        """Have refused pods tried again if a node has room; called whenever its room may have changed."""
        if self._wake is None:
            return
        name = self._names[node]
        waiting = any(not pod.deleted for pod in self._refused)
        if self._wake_up.observe(name, self._plugin.score(name), self._now(), wanted=waiting):
            self._wake(node)
