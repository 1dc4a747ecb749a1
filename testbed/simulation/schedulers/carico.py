"""CARICO as a scheduler under test: its own core, driven as the extender drives it, inside the emulated framework.

kube-scheduler's filters apply hard constraints (requests if there are any, node affinity); `carico.scheduling` decides
among the nodes that pass. It gets the same input as in the extender: agents' reports and what a watch on pods shows.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from carico.demand.settings import DemandVariant
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.scheduler import STALE_AFTER_S, Scheduler
from carico.scheduling.wake_up import WakeUp
from testbed.schedulers.spec import CaricoSpec
from testbed.simulation.agents import AgentFleet
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.demand import put_demand
from testbed.simulation.schedulers.resources_fit import ResourcesFit
from testbed.simulation.schedulers.under_test import Site, UnderTest
from workloads.scenario import ClusterShape


def carico_parameters(parameters: SimulationParameters) -> SimulationParameters:
    """Return the parameters as CARICO's own kube-scheduler has them: with its own longest back-off."""
    return msgspec.structs.replace(parameters, backoff_max_s=parameters.carico_backoff_max_s)


def put_carico(site: Site, spec: CaricoSpec) -> UnderTest:
    """Return CARICO with its agents: the classes of its variant."""
    variant, parameters = spec.variant, carico_parameters(site.parameters)
    if isinstance(variant, DemandVariant):
        return put_demand(site, variant, parameters)
    plugin = CaricoScheduler(
        site.names,
        site.shape,
        site.parameters,
        now=lambda: site.env.now,
        wake=site.wake,
        until_counted=variant.until_counted,
    )
    agents = AgentFleet(
        site.names,
        variant,
        site.parameters,
        rng=site.agents_rng,
        first=site.first,
        on_report=site.delayed(plugin.report),
        max_pods=site.max_pods,
    )
    return UnderTest(plugin, parameters, agents, plugin.tick)


class CaricoScheduler:
    """Places pods by reported Pod-Capacity less reservations.

    Parameters
    ----------
    names : list of str
        The nodes.
    shape : ClusterShape
    parameters : SimulationParameters
    now : callable
        Returns the time, seconds.
    wake : callable, optional
        Called with a node that has room again, so that refused pods are tried again; not called if `wake_up` is off.
    until_counted : bool, optional
        See `Scheduler`.
    """

    is_extender = True

    def __init__(
        self,
        names: list[str],
        shape: ClusterShape,
        parameters: SimulationParameters,
        now: Callable[[], float],
        wake: Callable[[int], None] = lambda node: None,
        until_counted: bool = False,
    ) -> None:
        self._names = names
        self._index = {name: index for index, name in enumerate(names)}
        self._fit = ResourcesFit(shape, parameters)
        self._now = now
        self._scheduler = Scheduler(
            CaricoPlugin(STALE_AFTER_S),
            wake_up=WakeUp() if parameters.wake_up else None,
            wake=lambda name, available: wake(self._index[name]),
            until_counted=until_counted,
        )

    def report(self, node: int, pod_capacity: float, counted: frozenset[str] | None = None) -> None:
        """Process the report of a node's agent."""
        self._scheduler.report(self._names[node], pod_capacity, self._now(), counted)

    def tick(self) -> None:
        """End what is overdue; see `Scheduler.tick`."""
        self._scheduler.tick(self._now())

    def pod_created(self, pod: Pod) -> None:
        """Do nothing: only pods that are tried concern the extender."""

    def select(self, pod: Pod) -> int | None:
        """Filter, score and reserve in one step, as the extender does."""
        candidates = [self._names[node] for node in np.flatnonzero(self._fit.fits(pod)).tolist()]
        best = self._scheduler.filter(pod.uid, candidates, self._now()).best
        return None if best is None else self._index[best]

    def held(self, pod: Pod) -> None:
        """Return None: a pod without a node is refused at once."""

    def reserve(self, pod: Pod, node: int) -> None:
        """Count the pod's requests against the node."""
        self._fit.add(pod, node)

    def pod_bound(self, pod: Pod) -> None:
        """Confirm the reservation."""
        self._shown(pod, pending=True)

    def pod_running(self, pod: Pod) -> None:
        """End the reservation, or hold it until the pod is counted."""
        self._shown(pod, pending=False)

    def pod_finished(self, pod: Pod) -> None:
        """End the reservation if it has not ended yet, and free the pod's requests."""
        self._shown(pod, pending=False, ended=True)
        if pod.node is not None:
            self._fit.add(pod, pod.node, -1)

    def node_ready(self, node: int, ready: bool) -> None:
        """Let a node take pods, or none."""
        self._fit.ready[node] = ready

    def _shown(self, pod: Pod, pending: bool, ended: bool = False) -> None:
        node = "" if pod.node is None else self._names[pod.node]
        self._scheduler.pod_changed(pod.uid, node, pending, self._now(), ended=ended)
