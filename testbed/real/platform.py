"""The protocol of what pods find on a real cluster: the nodes a scenario asks for, and what its pods are made of.

Fake nodes do no work and pods end when they are told to; containers run the workloads themselves. Not here: where the
cluster comes from (`testbed.real.lifecycle`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

Template = Callable[[JobSpec, Sequence[float]], dict[str, Any]]
"""Returns the pod template of a job as the API's JSON: its container, and annotations if it needs any.

Its arguments are the job and the CPU-seconds of its pods, by completion index. Name, labels, requests, scheduler and
placement are added by the run that publishes the job.
"""


@dataclass(frozen=True)
class Prepared:
    """A cluster on which a repetition can begin."""

    names: Mapping[str, str]
    """What the scenario calls a node, by the node's name."""
    template: Template
    """What its pods are made from."""
    scheduler_name: str = KUBE_SCHEDULER
    """By which pods ask for the scheduler under test."""
    programs: bool = False
    """Whether pods run programs here, which tell what they have measured."""
    telemetry: AgentTelemetry | None = None
    """What tells of the nodes, where agents run."""


class Setup(Protocol):
    """A scenario under a scheduler that a platform has found it can prepare."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings that are in force, for the results."""
        ...

    def prepare(self, cluster: Cluster) -> Prepared:
        """Give the cluster the nodes of the scenario, all ready when it returns, and what its pods are started from.

        Raises
        ------
        ClusterError
            If they are not in time.
        KubeError
            If the API server does not answer, or refuses.
        """
        ...


class Platform(Protocol):
    """Nodes and pods of one kind of cluster."""

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> Setup:
        """Check, before there is a cluster, that it can do this, and return what prepares it.

        Raises
        ------
        UsageError
            If it cannot have this shape, run these jobs or this scheduler (a pod fits no node, for instance), or does
            not know a setting.
        """
        ...

    def close(self) -> None:
        """End what runs for the cluster outside of it; it is prepared anew if it is used again."""
        ...
