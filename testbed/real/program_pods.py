"""Pods that run the workloads' own programs, on kind and on somebody's cluster."""

from __future__ import annotations

import re
from typing import Any

from testbed.errors import UsageError
from testbed.real.servers import server_spec
from workloads.commands import command_of
from workloads.scenario import JobSpec, Scenario

TELL_CPU = ("pi", "mlp")
"""Workloads whose programs tell in their log what CPU time they took."""
_CPU_S = re.compile(r"\bcpu_s=(\d+(?:\.\d+)?)\b")


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
        program_pod(job, "", "Never")
        if job.work:
            raise UsageError(f"job {job.name}: pods of a real Job run the same program, leave out their `work`")


def program_pod(job: JobSpec, image: str, pull: str) -> dict[str, Any]:
    """Return the spec of a pod that runs a job's program.

    Parameters
    ----------
    job : JobSpec
    image : str
    pull : str
        When the image is pulled (`imagePullPolicy`).
    """
    pulled = {"image": image, "imagePullPolicy": pull}
    if job.demand.service is not None:
        return {**server_spec(job, pulled), "automountServiceAccountToken": False}
    container = {"name": job.workload, **pulled, "command": command_of(job.workload, job.parameters)}
    return {"containers": [container], "automountServiceAccountToken": False}


def told_cpu_s(log: str) -> float | None:
    """Return the CPU-seconds that a program's log tells of; None if it tells of none.

    Examples
    --------
    >>> told_cpu_s("accuracy=0.9 wall_s=3.21 cpu_s=1.25")
    1.25
    """
    said = _CPU_S.search(log)
    return None if said is None else float(said[1])
