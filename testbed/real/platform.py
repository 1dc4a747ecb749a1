"""The protocol of what pods find on a real cluster: the nodes a scenario asks for, and what its pods are made of.

Fake nodes do no work and pods end when they are told to; containers run the workloads themselves. Not here: where the
cluster comes from (`testbed.real.maker`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.real.agent_telemetry import AgentTelemetry
from testbed.real.lifecycle import Cluster
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import JobSpec, Scenario

KUBE_SCHEDULER = "default-scheduler"
"""The name by which pods ask for the cluster's own scheduler."""
CARICO = "carico"
"""The name by which they ask for CARICO."""


@dataclass(frozen=True)
class Prepared:
    """A cluster that a repetition can begin on."""

    names: Mapping[str, str]
    """What the scenario calls a node, by the node's name."""
    scheduler_name: str = KUBE_SCHEDULER
    """By which pods ask for the scheduler under test."""
    programs: bool = False
    """Whether pods run programs here, which tell what they have measured."""
    telemetry: AgentTelemetry | None = None
    """What tells of the nodes, where agents run."""


class Platform(Protocol):
    """Nodes and pods of one kind of cluster."""

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check, before there is a cluster, that it can do this, and return all settings that will be in force.

        Raises
        ------
        UsageError
            If it cannot have this shape, run these jobs or this scheduler (a pod fits no node, for instance), or does
            not know a setting.
        """
        ...

    def prepare(
        self, cluster: Cluster, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]
    ) -> Prepared:
        """Give the cluster the nodes of a scenario, all ready when it returns, and what its pods are started from.

        Raises
        ------
        ClusterError
            If they are not in time.
        KubeError
            If the API server does not answer, or refuses.
        """
        ...

    def template(self, job: JobSpec, work: Sequence[float], scenario: Scenario) -> dict[str, Any]:
        """Return the pod template of a job as the API's JSON: its container, and annotations if it needs any.

        Name, labels, requests, scheduler and placement are put in by who publishes it.

        Parameters
        ----------
        job : JobSpec
        work : sequence of float
            CPU-seconds of its pods, by completion index.
        scenario : Scenario
        """
        ...

    def close(self) -> None:
        """End what runs for the cluster outside of it; it is prepared anew if it is used again."""
        ...
