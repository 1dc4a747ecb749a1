"""What a scenario's programs took on a real cluster: the CPU time that its pods tell, in the runs that are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from testbed.errors import ResultsError, UsageError
from testbed.real.program_pods import TELL_CPU
from testbed.results.schema import Repetition
from workloads.scenario import JobSpec, Scenario, checked


def check_measurable(scenario: Scenario) -> None:
    """Check that all that a scenario's jobs take can be measured.

    Raises
    ------
    UsageError
        If not.
    """
    for job in scenario.jobs:
        if job.workload not in TELL_CPU:
            raise UsageError(
                f"job {job.name}: the workload {job.workload} does not tell what CPU time it took; those that do are "
                f"{', '.join(TELL_CPU)}: validate with a scenario of these"
            )


def measured_demands(scenario: Scenario, runs: Sequence[Repetition]) -> dict[str, list[float]]:
    """Return the CPU-seconds of all pods of every job, in all runs.

    What a program takes changes from minute to minute on a shared machine: hence from the very runs that simulated ones
    are held against. What crowding adds is in it.

    Raises
    ------
    ResultsError
        If no pod of a job told what it took.
    """
    found: dict[str, list[float]] = {job.name: [] for job in scenario.jobs}
    for run in runs:
        for pod in run.pods:
            if pod.cpu_s is not None:
                found[pod.job].append(pod.cpu_s)
    silent = [job for job, told in found.items() if not told]
    if silent:
        raise ResultsError(
            f"no pod of {', '.join(silent)} told its CPU time, cpu_s=SECONDS, in its log: pods that succeed must, and "
            f"their logs must be readable (get pods/log)"
        )
    return found


def demands_table(demands: Mapping[str, Sequence[float]]) -> list[str]:
    """Return them as text, 80 columns wide."""
    return [
        "Programs, in these runs",
        *(
            f"  a pod of {job}: {fmean(cpu_s):.2f} CPU-seconds ({min(cpu_s):.2f} to {max(cpu_s):.2f}, n = {len(cpu_s)})"
            for job, cpu_s in demands.items()
        ),
    ]


def twin_of(scenario: Scenario, demands: Mapping[str, Sequence[float]]) -> Scenario:
    """Return the scenario with measured demands in place of those of the workloads' models."""
    return checked(
        msgspec.structs.replace(scenario, jobs=[_twin(job, fmean(demands[job.name])) for job in scenario.jobs]),
        f"{scenario.name} with measured demands",
    )


def _twin(job: JobSpec, cpu_seconds: float) -> JobSpec:
    if job.workload == "mlp":
        return msgspec.structs.replace(job, parameters={**job.parameters, "cpu_seconds": cpu_seconds})
    memory = f"{round(job.demand.memory_bytes / 2**20)}Mi"
    return msgspec.structs.replace(
        job, workload="task", parameters={"cores": 1, "cpu_seconds": cpu_seconds, "memory": memory}
    )
