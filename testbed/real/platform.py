"""The protocol of platforms: each provides a scenario's nodes and pods on one kind of real cluster.

On KWOK's fake nodes, pods only last for a given time; elsewhere containers run the workloads. Not here: where the
cluster comes from (`testbed.real.lifecycle`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.real.agent_telemetry import AgentTelemetry
from testbed.real.lifecycle import Cluster
from testbed.schedulers.spec import CARICO as CARICO
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import JobSpec, Scenario

Template = Callable[[JobSpec, Sequence[float]], dict[str, Any]]
"""Returns the pod template of a job as the API's JSON: its container, and annotations if it needs any.

Its arguments are the job and the CPU-seconds of its pods, by completion index. The run that publishes the job adds
name, labels, requests, scheduler and placement.
"""


@dataclass(frozen=True)
class Prepared:
    """A cluster on which a repetition can begin."""

    names: Mapping[str, str]
    """The scenario's name of each node, by the node's name on the cluster."""
    template: Template
    programs: bool = False
    """Whether pods run the workloads' programs, whose logs contain measurements."""
    telemetry: AgentTelemetry | None = None
    """Reads the nodes' agents; None where no agents run."""


class Setup(Protocol):
    """A scenario under a scheduler that a platform has checked and can prepare."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings in force, for the results."""
        ...

    def prepare(self, cluster: Cluster) -> Prepared:
        """Provide the scenario's nodes, all of them ready, and what its pods are started from.

        Raises
        ------
        ClusterError
            If the nodes are not ready in time.
        KubeError
            If the API server does not answer or refuses.
        """
        ...


class Platform(Protocol):
    """Nodes and pods of one kind of cluster."""

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> Setup:
        """Check, before a cluster is made, that the scenario can be run, and return what prepares it.

        Raises
        ------
        UsageError
            If the platform cannot provide the cluster's shape, run the jobs or the scheduler (a pod fits no node, for
            instance), or does not know a setting.
        """
        ...

    def close(self) -> None:
        """End the processes that run for the cluster outside it; `Setup.prepare` starts them anew."""
        ...
