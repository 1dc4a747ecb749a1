"""Nodes and pods on Xen guests: pods run the workloads' programs beside CARICO's agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from carico.clock import Clock, SystemClock
from testbed.errors import UsageError
from testbed.real.carico import DeployedCarico, agents_for, check_agents
from testbed.real.lifecycle import Cluster
from testbed.real.platform import Prepared
from testbed.real.program_pods import check_programs, image_of, template_of_program
from testbed.real.settings import NodeSettings, node_settings
from testbed.real.xen.description import Description, XlHost
from testbed.real.xen.maker import XenMaker
from testbed.schedulers.spec import SchedulerSpec
from workloads.quantity import memory_bytes, millicpu
from workloads.scenario import ClusterShape, NodePool, Scenario

_EMULATED = 5.0
"""How many times as long as elsewhere CARICO may take to be ready on guests of an emulated host."""


class XenPlatform:
    """A `Platform` on Xen guests.

    Parameters
    ----------
    maker : XenMaker
    clock : Clock, optional
    """

    def __init__(self, maker: XenMaker, clock: Clock | None = None) -> None:
        self._maker = maker
        self._clock = SystemClock() if clock is None else clock
        described = maker.description
        self._carico = DeployedCarico(
            maker,
            self._clock,
            telemetry="procfs",
            on_control_plane=described.control_plane is None,
            patience=_EMULATED if described.emulated else 1.0,
        )

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> XenSetup:
        """Check that there are enough guests and that all jobs are programs; see `Platform.check`."""
        chosen, described = node_settings("xen", settings), self._maker.description
        check_agents(scheduler, chosen, "xen")
        names = scenario.cluster.node_names
        if len(names) > described.workers:
            raise UsageError(
                f"{scenario.name} wants {len(names)} nodes, the description has {described.workers} guests for pods: "
                f"ask for fewer nodes, or describe more guests (guests: count, addresses)"
            )
        check_programs(scenario)
        scheduler.check_fits(msgspec.structs.replace(scenario, cluster=ClusterShape(pools=_pools(names, described))))
        return XenSetup(self, scenario, scheduler, chosen, described)

    def prepare(self, cluster: Cluster, setup: XenSetup) -> Prepared:
        """Cordon the workers that are not needed, and deploy agents that have learned nothing yet.

        See `Setup.prepare`.
        """
        images = {image: self._maker.provided_image(cluster, image) for image in map(image_of, setup.scenario.jobs)}
        workers = self._maker.workers(cluster.name)
        names = dict(zip(workers, setup.scenario.cluster.node_names, strict=False))
        for worker in workers:
            cluster.api.cordon(worker, worker not in names)
        telemetry = agents_for(self._carico, cluster, names, setup.scheduler, setup.chosen)
        self._clock.sleep_until(self._clock.now() + setup.chosen.warm_up_s)
        return Prepared(names, partial(template_of_program, images), programs=True, telemetry=telemetry)

    def close(self) -> None:
        """Do nothing: everything runs in the cluster. See `Platform.close`."""


@dataclass(frozen=True)
class XenSetup:
    """A `Setup` on Xen guests."""

    platform: XenPlatform
    scenario: Scenario
    scheduler: SchedulerSpec
    chosen: NodeSettings
    described: Description

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Setup`."""
        guests = self.described.guests
        return {
            **msgspec.structs.asdict(self.chosen),
            # Nodes have the guests' size, not the scenario's.
            **dict.fromkeys(("cores", "memory", "max_pods", "pools")),
            "guest_cores": guests.cores,
            "guest_memory": guests.memory,
            # Only a pool's template knows.
            "guest_type": guests.type if isinstance(self.described.host, XlHost) else None,
            "guest_cpus": guests.cpus,
            "guest_weight": guests.weight,
            "guest_cap": guests.cap,
            "emulated": self.described.emulated,
        }

    def prepare(self, cluster: Cluster) -> Prepared:
        """See `XenPlatform.prepare`."""
        return self.platform.prepare(cluster, self)


def _pools(names: list[str], described: Description) -> list[NodePool]:
    """Return the nodes of a scenario with the size that their kubelets report, or a little more."""
    guests = described.guests
    cores = guests.cores - millicpu(guests.reserved.cpu) / 1000
    memory = memory_bytes(guests.memory) - memory_bytes(guests.reserved.memory)
    return [NodePool(name, 1, cores, str(memory)) for name in names]
