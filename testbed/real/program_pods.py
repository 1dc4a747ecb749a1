"""Pods that run the workloads' own programs, on kind and on the user's own cluster, and what their logs tell.

A server is a pod of two containers: the server, and a client that measures how long requests take.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from testbed.errors import UsageError
from testbed.real.api import Json
from testbed.results.schema import PodResult, RequestSeries
from workloads.commands import command_of, server_commands
from workloads.scenario import JobSpec, Scenario

CLIENT = "client"
_PORT = 8080
_ANSWER = re.compile(r"^due_unix_s=([0-9.]+) latency_s=([0-9.]+)$", re.MULTILINE)
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
        return {**_server_spec(job, pulled), "automountServiceAccountToken": False}
    container = {"name": job.workload, **pulled, "command": command_of(job.workload, job.parameters)}
    return {"containers": [container], "automountServiceAccountToken": False}


def _server_spec(job: JobSpec, pulled: Mapping[str, str]) -> Json:
    """Return the spec of a pod whose client begins when its server answers, and which is over when the client is.

    Parameters
    ----------
    job : JobSpec
    pulled : mapping of str to str
        Image, and when it is pulled, as fields of a container.

    Raises
    ------
    InvalidDemand
        If the programs do not take the job's parameters.
    """
    server, client = server_commands(job.parameters, _PORT)
    ready = {"httpGet": {"path": "/healthz", "port": _PORT}, "periodSeconds": 1, "failureThreshold": 60}
    beside = {"name": "server", **pulled, "command": server, "restartPolicy": "Always", "startupProbe": ready}
    return {"initContainers": [beside], "containers": [{"name": CLIENT, **pulled, "command": client}]}


def told_cpu_s(log: str) -> float | None:
    """Return the CPU-seconds that a program's log tells of; None if it tells of none.

    Examples
    --------
    >>> told_cpu_s("accuracy=0.9 wall_s=3.21 cpu_s=1.25")
    1.25
    """
    said = _CPU_S.search(log)
    return None if said is None else float(said[1])


def request_series(pod: PodResult, log: str, began_unix_s: float) -> RequestSeries:
    r"""Return the requests that a client's log tells of.

    Parameters
    ----------
    pod : PodResult
    log : str
    began_unix_s : float
        When the scenario began, seconds since 1970.

    Examples
    --------
    >>> pod = PodResult("web-0", "web", "node-0", 0.0, 0.0, 1.0, None, "unfinished")
    >>> request_series(pod, "due_unix_s=102.500000 latency_s=0.001200\n", 100.0).latency_s
    [0.0012]
    """
    found = [(float(due) - began_unix_s, float(latency)) for due, latency in _ANSWER.findall(log)]
    return RequestSeries(
        pod=pod.name,
        job=pod.job,
        node=pod.node or "",
        sent_s=[round(due, 6) for due, _ in found],
        latency_s=[latency for _, latency in found],
    )
