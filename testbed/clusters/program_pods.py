"""Pods that run the workloads' own programs, on kind and on somebody's cluster."""

from __future__ import annotations

from typing import Any

from testbed.errors import UsageError
from workloads.commands import command_of
from workloads.scenario import JobSpec, Scenario


def check_programs(scenario: Scenario) -> None:
    """Check that all jobs are programs.

    Raises
    ------
    UsageError
        If one asks for what only a model can do.
    InvalidDemand
        If there is no program for one, or its program has no option for a parameter.
    """
    for job in scenario.jobs:
        command_of(job.workload, job.parameters)
        if job.work:
            raise UsageError(f"job {job.name}: pods of a real Job run the same program, leave out their `work`")
        if job.platform:
            raise UsageError(f"job {job.name}: pods of the platform are real ones here, leave out `platform`")


def program_pod(job: JobSpec, image: str, pull: str) -> dict[str, Any]:
    """Return the spec of a pod that runs a job's program.

    Parameters
    ----------
    job : JobSpec
    image : str
    pull : str
        When the image is pulled (`imagePullPolicy`).
    """
    container = {
        "name": job.workload,
        "image": image,
        "imagePullPolicy": pull,
        "command": command_of(job.workload, job.parameters),
    }
    return {"containers": [container], "automountServiceAccountToken": False}
