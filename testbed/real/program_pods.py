"""Pods that run the workloads' programs, on kind and on the user's own cluster, and the measurements in their logs.

A server's pod has two containers: the server, and a client that measures how long requests take.
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
PRINT_CPU_TIME = ("pi", "mlp")
"""Workloads whose programs print the CPU time that they took."""
_CPU_S = re.compile(r"\bcpu_s=(\d+(?:\.\d+)?)\b")


def check_programs(scenario: Scenario) -> None:
    """Check that a program exists for every job.

    Raises
    ------
    UsageError
        If a job has `work`, which only simulated pods can take into account.
    InvalidDemand
        If a job's workload has no program, or the program has no option for one of its parameters.
    """
    for job in scenario.jobs:
        program_pod(job, "", "Never")
        if job.work:
            raise UsageError(f"job {job.name}: all pods of a real Job run the same program: leave out `work`")


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
    """Return the spec of a pod with a server and a client, which begins when the server answers and ends the pod.

    Parameters
    ----------
    job : JobSpec
    pulled : mapping of str to str
        The image and its pull policy, as fields of a container.

    Raises
    ------
    InvalidDemand
        If the programs do not take the job's parameters.
    """
    server, client = server_commands(job.parameters, _PORT)
    ready = {"httpGet": {"path": "/healthz", "port": _PORT}, "periodSeconds": 1, "failureThreshold": 60}
    beside = {"name": "server", **pulled, "command": server, "restartPolicy": "Always", "startupProbe": ready}
    return {"initContainers": [beside], "containers": [{"name": CLIENT, **pulled, "command": client}]}


def printed_cpu_s(log: str) -> float | None:
    """Return the CPU-seconds that a program has printed; None if its log has none.

    Examples
    --------
    >>> printed_cpu_s("accuracy=0.9 wall_s=3.21 cpu_s=1.25")
    1.25
    """
    said = _CPU_S.search(log)
    return None if said is None else float(said[1])


def request_series(pod: PodResult, log: str, began_unix_s: float) -> RequestSeries:
    r"""Return the requests in a client's log.

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
