"""Nodes and pods on kind: pods run the workloads' programs on nodes of the scenario's size, beside CARICO's agents."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from carico.clock import Clock, SystemClock
from testbed.errors import UsageError
from testbed.real.carico import DeployedCarico, agents_for, check_agents
from testbed.real.kind.maker import KindMaker
from testbed.real.kind.nodes import size_nodes
from testbed.real.lifecycle import Cluster
from testbed.real.platform import Prepared
from testbed.real.program_pods import check_programs, image_of, template_of_program
from testbed.real.settings import NodeSettings, node_settings
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import Scenario

OWN_CPUS = 0.5
"""The CPUs of the machine that are left to the control plane and the process that measures."""


class KindPlatform:
    """A `Platform` on kind.

    Parameters
    ----------
    maker : KindMaker
    cpus : float, optional
        The machine's CPUs; by default those that this process may use.
    clock : Clock, optional
    """

    def __init__(self, maker: KindMaker, cpus: float | None = None, clock: Clock | None = None) -> None:
        self._maker = maker
        self._cpus = len(os.sched_getaffinity(0)) if cpus is None else cpus
        self._clock = SystemClock() if clock is None else clock
        self._carico = DeployedCarico(maker, self._clock)

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> KindSetup:
        """Check that the machine is large enough and that all jobs are programs; see `Platform.check`."""
        chosen = node_settings("kind", settings)
        check_agents(scheduler, chosen, "kind")
        pools = scenario.cluster.each_node
        if len(pools) > self._maker.workers:
            raise UsageError(
                f"{scenario.name} wants {len(pools)} nodes, the kind cluster has {self._maker.workers} workers: "
                f"ask for fewer nodes, or for more workers (--workers; pytest: --carico-workers)"
            )
        wanted = sum(pool.cores for pool in pools)
        if wanted > self._cpus - OWN_CPUS:
            raise UsageError(
                f"{scenario.name} wants {wanted:g} CPUs for its nodes, this machine has {self._cpus:g}, of which "
                f"{OWN_CPUS:g} are for the control plane: describe smaller nodes (cluster: cores), or fewer"
            )
        check_programs(scenario)
        scheduler.check_fits(scenario)
        return KindSetup(self, scenario, scheduler, chosen=chosen, machine_cpus=self._cpus)

    def prepare(self, cluster: Cluster, setup: KindSetup) -> Prepared:
        """Resize the nodes, load images, and deploy agents that have learned nothing yet; see `Setup.prepare`."""
        scenario = setup.scenario
        images = {image: self._maker.provided_image(cluster, image) for image in map(image_of, scenario.jobs)}
        workers = [name for name in self._maker.nodes(cluster.name) if not name.endswith("control-plane")]
        shape = scenario.cluster
        names = dict(zip(workers, shape.node_names, strict=False))
        size_nodes(self._maker.docker, cluster.api, workers, dict(zip(workers, shape.each_node, strict=False)))
        telemetry = agents_for(self._carico, cluster, names, setup.scheduler, setup.chosen)
        self._clock.sleep_until(self._clock.now() + setup.chosen.warm_up_s)
        return Prepared(names, partial(template_of_program, images), programs=True, telemetry=telemetry)

    def close(self) -> None:
        """Do nothing: everything runs in the cluster. See `Platform.close`."""


@dataclass(frozen=True)
class KindSetup:
    """A `Setup` on kind."""

    platform: KindPlatform
    scenario: Scenario
    scheduler: SchedulerSpec
    chosen: NodeSettings
    machine_cpus: float

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Setup`."""
        return {**msgspec.structs.asdict(self.chosen), "machine_cpus": self.machine_cpus}

    def prepare(self, cluster: Cluster) -> Prepared:
        """See `KindPlatform.prepare`."""
        return self.platform.prepare(cluster, self)
