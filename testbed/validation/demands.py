"""The CPU time of a scenario's programs on a real cluster, as its pods print it in the runs that are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from testbed.errors import ResultsError, UsageError
from testbed.real.program_pods import PRINT_TIMES
from testbed.results.schema import Repetition
from workloads.scenario import JobSpec, Scenario, checked


def check_measurable(scenario: Scenario) -> None:
    """Check that the CPU time of all of a scenario's jobs can be measured.

    Raises
    ------
    UsageError
        If a job's program does not print it.
    """
    for job in scenario.jobs:
        if job.workload not in PRINT_TIMES:
            raise UsageError(
                f"job {job.name}: the workload {job.workload} does not print its CPU time; workloads that do are "
                f"{', '.join(PRINT_TIMES)}: validate with a scenario of these"
            )


def measured_demands(scenario: Scenario, runs: Sequence[Repetition]) -> dict[str, list[float]]:
    """Return the CPU-seconds of all pods of every job, in all runs.

    On a shared machine the CPU time of a program changes from minute to minute, so it is taken from the very runs that
    are compared with simulated ones. It includes the effect of crowding.

    Raises
    ------
    ResultsError
        If no pod of a job printed its CPU time.
    """
    found: dict[str, list[float]] = {job.name: [] for job in scenario.jobs}
    for run in runs:
        for pod in run.pods:
            if pod.cpu_s is not None:
                found[pod.job].append(pod.cpu_s)
    silent = [job for job, told in found.items() if not told]
    if silent:
        raise ResultsError(
            f"no log of a pod of {', '.join(silent)} has its times (cpu_s, began_unix_s, ended_unix_s): pods that "
            f"succeed must print them, as images of this version do, and their logs must be readable (get pods/log)"
        )
    return found


def demands_table(demands: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the measured demands as text, 80 columns wide."""
    return [
        "Programs, in these runs",
        *(
            f"  a pod of {job}: {fmean(cpu_s):.2f} CPU-seconds ({min(cpu_s):.2f} to {max(cpu_s):.2f}, n = {len(cpu_s)})"
            for job, cpu_s in demands.items()
        ),
    ]


def twin_of(scenario: Scenario, demands: Mapping[str, Sequence[float]]) -> Scenario:
    """Return the scenario with measured demands in place of the workloads' models."""
    return checked(
        msgspec.structs.replace(scenario, jobs=[_twin(job, fmean(demands[job.name])) for job in scenario.jobs]),
        f"{scenario.name} with measured demands",
    )


def _twin(job: JobSpec, cpu_seconds: float) -> JobSpec:
    if job.workload == "mlp":
        # The measured CPU time includes what contention costs.
        measured = {"cpu_seconds": cpu_seconds, "contention_loss": 0.0}
        return msgspec.structs.replace(job, parameters={**job.parameters, **measured})
    memory = f"{round(job.demand.memory_bytes / 2**20)}Mi"
    return msgspec.structs.replace(
        job, workload="task", parameters={"cores": 1, "cpu_seconds": cpu_seconds, "memory": memory}
    )
