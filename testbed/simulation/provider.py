"""The provider `simulated`: deterministic runs in virtual time, in seconds, on this machine alone.

Not here: the cluster itself (`cluster`) and what it refuses (`checks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from testbed.experiment.free_resources import shortages
from testbed.experiment.provider import OnProgress
from testbed.requirements import Problem
from testbed.results.schema import Repetition
from testbed.schedulers.spec import SchedulerSpec
from testbed.simulation.checks import check
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import SimulationParameters, parameters_from
from workloads.scenario import Scenario

NEEDED_BYTES = 150 * 2**20
"""A run on 19 nodes needs 50 MiB, four runs with tables and files need 60; a pytest session keeps all it measures."""


class SimulatedProvider:
    """A `ClusterProvider` that makes a new simulated cluster for every repetition."""

    name = "simulated"
    shared_hardware = False

    def preflight(self) -> Sequence[Problem]:
        """Check that there is memory for a run; see `ClusterProvider.preflight`."""
        return list(shortages("simulated", NEEDED_BYTES))

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> SimulatedTrial:
        """Check that this can be run; see `ClusterProvider.check`."""
        parameters = parameters_from(settings)
        check(scenario, scheduler, parameters)
        return SimulatedTrial(scenario, scheduler, parameters)

    def kubernetes_version(self) -> None:
        """Return None, as no Kubernetes is run; see `ClusterProvider.kubernetes_version`."""

    def made_from(self) -> Mapping[str, str]:
        """Return nothing, as no cluster is made; see `ClusterProvider.made_from`."""
        return {}

    def close(self) -> None:
        """Do nothing, as trials leave nothing; see `ClusterProvider.close`."""


@dataclass(frozen=True)
class SimulatedTrial:
    """A `Trial` on a new simulated cluster for each repetition."""

    scenario: Scenario
    scheduler: SchedulerSpec
    parameters: SimulationParameters

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Trial`."""
        return dict(msgspec.to_builtins(self.parameters))

    def run(self, seed: int, on_progress: OnProgress | None = None) -> Repetition:
        """Run the scenario once; see `Trial.run`."""
        return SimulatedCluster(self.scenario, self.scheduler, seed, self.parameters).run(on_progress)
