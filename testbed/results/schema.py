"""The schema of a results file, version 1. Times are seconds since the scenario began.

A file holds no run id, wall-clock time or machine: the same seed gives the same bytes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

SCHEDULER = "scheduler"
"""The setting that names the class of a scheduler of one's own; others have no such setting."""

AA_CHECK = "aa_check"
"""The setting of repetitions that measure a scheduler a second time, for the A/A check; they count nowhere else."""

PodOutcome = Literal["succeeded", "oom_killed", "failed", "evicted", "unfinished"]

USAGE = ("cpu_utilisation", "cpu_pressure", "memory_utilisation")
REPORTED = ("capacity_signal", "baseline", "pod_cost", "pod_capacity")
"""The columns of a `NodeSeries` with a node's usage, and with what CARICO's agent on the node reports."""
STOLEN = "cpu_stolen"
"""The column with the CPU time that a node's hypervisor gave to others, which only some providers have."""


class PodResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened to a pod; times of events that did not happen are None."""

    name: str
    job: str
    node: str | None
    created_s: float
    scheduled_s: float | None
    started_s: float | None
    finished_s: float | None
    outcome: PodOutcome
    cpu_s: float | None = None
    """CPU-seconds as printed by the pod's program, if it is a real program that prints them."""


class WorkloadCost(msgspec.Struct, frozen=True):
    """What a node under the variant `demand` has learned that a pod of a workload takes, at the times of its node.

    None until the node knows the workload, and while it is down.
    """

    workload: str
    """The name of the first job with such pods."""
    cores: list[float | None]
    gib: list[float | None]
    """Memory at its peak."""


class NodeSeries(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node over time, once a second; None while the node is down or absent.

    CARICO's figures are also None where no agent runs or k is unlimited, and under the variant `demand`, which has none
    of them.
    """

    name: str
    time_s: list[float]
    running_pods: list[int]
    cpu_utilisation: list[float | None]
    cpu_pressure: list[float | None]
    memory_utilisation: list[float | None]
    capacity_signal: list[float | None]
    baseline: list[float | None]
    pod_cost: list[float | None]
    pod_capacity: list[float | None]
    cpu_stolen: list[float | None] = []
    """The share of its CPU time that its hypervisor gave to other guests; empty where that is not recorded."""
    costs: list[WorkloadCost] = []
    """Under the variant `demand`, of at most ten workloads."""

    def values(self, column: str) -> list[float | None]:
        """Return a column, all None if it was not recorded."""
        found: list[float | None] = getattr(self, column)
        return found or [None] * len(self.time_s)


class RequestSeries(msgspec.Struct, frozen=True):
    """What the client of one server pod measured, request by request."""

    pod: str
    job: str
    node: str
    sent_s: list[float]
    latency_s: list[float]
    """Seconds from sending to the complete answer."""


class OwnMetric(msgspec.Struct, frozen=True):
    """What a measurement of the user's own says of its metric, so that commands that lack the measurement know it."""

    name: str
    unit: str
    meaning: str
    less_is_better: bool | None
    """None if neither direction is better."""
    statistics: list[str]
    """What of it is compared by default."""
    relative: bool
    """Whether values are compared by their ratio; otherwise by their difference."""


class DataItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured quantity with its unit and labels, shaped like perf-tests' DataItem."""

    data: dict[str, float]
    unit: str
    labels: dict[str, str]
    own: OwnMetric | None = None
    """None if the metric is one of the testbed's."""


class Repetition(msgspec.Struct, frozen=True):
    """One measured pass of a scenario under a scheduler."""

    scenario: str
    scheduler: str
    """The spec as typed."""
    seed: int
    settings: dict[str, Any]
    """Everything else that decides the outcome: the scenario and all parameters of the cluster."""
    job_completion_time_s: dict[str, float | None]
    """By job, without disturbances: from its publication to the end of its last pod; None if it did not complete."""
    pods: list[PodResult]
    nodes: list[NodeSeries]
    data_items: list[DataItem] = []
    requests: list[RequestSeries] = []
    """One series for every server pod."""

    @property
    def surroundings(self) -> dict[str, Any]:
        """The settings that schedulers share which are compared with one another."""
        return {name: value for name, value in self.settings.items() if name != SCHEDULER}

    @property
    def of_aa_check(self) -> bool:
        """Whether it is for the A/A check only."""
        return AA_CHECK in self.settings

    @property
    def measured_jobs(self) -> dict[str, int]:
        """The jobs that are not disturbances, with their numbers of pods."""
        jobs = self.settings.get("jobs")
        if jobs is None:  # from a provider whose settings lack the jobs
            return {job: sum(pod.job == job for pod in self.pods) for job in self.job_completion_time_s}
        return {job["name"]: job["pods"] for job in jobs if not job["disturbance"]}


class Results(msgspec.Struct, frozen=True):
    """A results file."""

    repetitions: list[Repetition]
    schema_version: int = SCHEMA_VERSION
