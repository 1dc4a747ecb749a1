"""CARICO's variant `demand` as a scheduler under test: its own core, inside the emulated framework.

kube-scheduler's filters apply hard constraints (requests if there are any, node affinity). The core gets the same input
as in the extender: agents' reports and what a watch on pods shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import simpy

from carico.demand.report import DemandReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DemandVariant
from carico.demand.waiting import Kind
from carico.demand.workload import LATENCY_CRITICAL, is_latency_critical, placement_of, workload_of
from carico.scheduling.wake_up import WakeUp
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.demand_agents import DemandAgents
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.resources_fit import ResourcesFit
from testbed.simulation.schedulers.under_test import Site, UnderTest
from workloads.scenario import ClusterShape, JobSpec


def put_demand(site: Site, variant: DemandVariant, parameters: SimulationParameters) -> UnderTest:
    """Return the variant `demand` with its agents; `parameters` are those of its framework."""
    plugin = SimulatedDemandScheduler(
        site.env,
        site.names,
        site.shape,
        site.kinds,
        variant=variant,
        parameters=site.parameters,
        wake=site.wake,
    )
    agents = DemandAgents(
        site.names,
        site.cores,
        site.memory_bytes,
        variant=variant,
        parameters=site.parameters,
        rng=site.agents_rng,
        first=site.first,
        read_pods=site.read_pods,
        on_report=site.delayed(plugin.report),
    )
    return UnderTest(plugin, parameters, agents, plugin.tick)


class SimulatedDemandScheduler:
    """Places pods where they find room below a level of load.

    Parameters
    ----------
    env : simpy.Environment
    names : list of str
        The nodes.
    shape : ClusterShape
    kinds : mapping of str to Kind
        The kind of every job's pods, by the job's name; see `kind_of`.
    variant : DemandVariant
    parameters : SimulationParameters
    wake : callable
        Called with a node that has room again, so that refused pods are tried again; not called if `wake_up` is off.
    """

    is_extender = True

    def __init__(
        self,
        env: simpy.Environment,
        names: list[str],
        shape: ClusterShape,
        kinds: Mapping[str, Kind],
        variant: DemandVariant,
        parameters: SimulationParameters,
        wake: Callable[[int], None],
    ) -> None:
        self._env = env
        self._names = names
        self._index = {name: index for index, name in enumerate(names)}
        self._kinds = kinds
        self._fit = ResourcesFit(shape, parameters)
        self._core = DemandScheduler(
            variant,
            wake_up=WakeUp() if parameters.wake_up else None,
            wake=lambda name, room: wake(self._index[name]),
            sees_pods=True,
        )
        self._hold_s = 0.0
        self._changed = env.event()

    def report(self, node: int, report: DemandReport) -> None:
        """Process the report of a node's agent."""
        self._notice(lambda: self._core.report(report, self._env.now))

    def tick(self) -> None:
        """End what is overdue; see `DemandScheduler.tick`."""
        self._notice(lambda: self._core.tick(self._env.now))

    def pod_created(self, pod: Pod) -> None:
        """Note that a pod waits."""
        self._notice(lambda: self._core.pod_waits(pod.uid, self._kinds[pod.job.name]))

    def select(self, pod: Pod) -> int | None:
        """Return the node for a pod, or None; see `SchedulingPlugin.select`."""
        candidates = [self._names[node] for node in np.flatnonzero(self._fit.fits(pod)).tolist()]
        decision = self._core.filter(pod.uid, self._kinds[pod.job.name], candidates, self._env.now)
        self._hold_s, node = decision.hold_s, decision.node
        return None if node is None else self._index[node]

    def held(self, pod: Pod) -> simpy.Event | None:
        """Return when to ask again: when a node has room, or after as long as the core says."""
        if not self._hold_s:
            return None
        self._changed = self._env.event()
        return self._env.any_of([self._changed, self._env.timeout(self._hold_s)])

    def reserve(self, pod: Pod, node: int) -> None:
        """Count the pod's requests against the node."""
        self._fit.add(pod, node)

    def pod_bound(self, pod: Pod) -> None:
        """Confirm where the pod goes."""
        self._shown(pod, running=False)

    def pod_running(self, pod: Pod) -> None:
        """Note that the pod runs; it is on its way until its node counts it."""
        self._shown(pod, running=True)

    def pod_finished(self, pod: Pod) -> None:
        """Note that the pod is over, and free its requests."""
        self._notice(lambda: self._core.pod_gone(pod.uid, self._env.now))
        if pod.node is not None:
            self._fit.add(pod, pod.node, -1)

    def node_ready(self, node: int, ready: bool) -> None:
        """Let a node take pods, or none."""
        self._fit.ready[node] = ready

    def _notice(self, news: Callable[[], object]) -> None:
        """Pass news on to the core; as in the extender, a held answer is reconsidered if a node has room now."""
        before = self._core.room_appeared
        news()
        if self._core.room_appeared != before and not self._changed.triggered:
            self._changed.succeed()

    def _shown(self, pod: Pod, *, running: bool) -> None:
        assert pod.node is not None
        kind, node = self._kinds[pod.job.name], self._names[pod.node]
        self._notice(
            lambda: self._core.pod_changed(
                pod.uid, kind.workload, node, False, self._env.now, running=running, critical=kind.critical
            )
        )


def kind_of(job: JobSpec) -> Kind:
    """Return the kind of a job's pods, by the rules of production: jobs with the same template are one workload.

    Examples
    --------
    >>> first, second = (JobSpec(name=name, workload="pi", pods=1) for name in ("first", "second"))
    >>> kind_of(first) == kind_of(second)
    True
    """
    pod = _pod_object(job)
    return Kind(workload_of(pod), placement_of(pod), is_latency_critical(pod))


def _pod_object(job: JobSpec) -> dict[str, Any]:
    """What the API of a cluster would show of a job's pods, as far as CARICO looks at it."""
    arguments = [f"{name}={value}" for name, value in job.parameters.items()]
    return {
        "metadata": {
            "ownerReferences": [{"kind": "Job", "name": job.name, "controller": True}],
            "labels": {LATENCY_CRITICAL: "true"} if job.latency_critical else {},
        },
        "spec": {
            "containers": [{"name": job.workload, "args": arguments}],
            "affinity": {} if job.placement == "any" else {"nodeAffinity": job.placement},
        },
    }
