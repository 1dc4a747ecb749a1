"""Pods that run the workloads' programs, on any cluster whose nodes run pods, and the measurements in their logs.

A server's pod has two containers: the server, and a client that measures how long requests take.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from testbed.errors import UsageError
from testbed.real.api import Json
from testbed.results.schema import PodResult, RequestSeries
from workloads.commands import command_of, needs_scikit_learn, server_commands
from workloads.scenario import JobSpec, Scenario

CLIENT = "client"
_PORT = 8080
_ANSWER = re.compile(r"^due_unix_s=([0-9]{1,12}\.[0-9]{1,9}) latency_s=([0-9]{1,12}\.[0-9]{1,9})$", re.MULTILINE)
PRINT_TIMES = ("pi", "mlp")
"""Workloads whose programs print the times of their process."""
_TOLERANCE_S = 0.1
"""The most by which a printed time may be before a pod's binding or after its end in the API; a later watch event, or a
clock that differs by less, is not told apart."""
_TIMES = re.compile(r"\bcpu_s=(\d+\.\d+) began_unix_s=(\d+\.\d+) ended_unix_s=(\d+\.\d+)\b")


class PrintedTimes(NamedTuple):
    """The times that a pod's program printed: its CPU time, its start and its end."""

    cpu_s: float
    began_unix_s: float
    ended_unix_s: float


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


def image_of(job: JobSpec) -> str:
    """Return which of the workloads' images a job's pods need."""
    return "workloads-sklearn" if needs_scikit_learn(job.workload) else "workloads"


def template_of_program(images: Mapping[str, str], job: JobSpec, work: Sequence[float]) -> dict[str, Any]:
    """Return the template of a pod that runs a job's program from an image that its node has.

    Parameters
    ----------
    images : mapping of str to str
        The full names of the workloads' images, by what `image_of` returns.
    job : JobSpec
    work : sequence of float
        Not used: a program's arguments say what it does; see `testbed.real.platform.Template`.
    """
    return {"spec": program_pod(job, images[image_of(job)], pull="Never")}


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


def printed_times(log: str) -> PrintedTimes | None:
    """Return the times that a program has printed; None if its log has none.

    Examples
    --------
    >>> printed_times("accuracy=0.9 cpu_s=1.250 began_unix_s=100.500 ended_unix_s=103.000")
    PrintedTimes(cpu_s=1.25, began_unix_s=100.5, ended_unix_s=103.0)
    """
    found = _TIMES.search(log)
    return None if found is None else PrintedTimes(*map(float, found.groups()))


def dated_by_program(pod: PodResult, printed: PrintedTimes, began_unix_s: float) -> PodResult:
    """Return a pod with the times that its program printed, if the API's times allow them.

    The API's times are late by up to a second, and by much the same for all pods of a run, because each pod starts when
    a kubelet has reported the end of another.

    Parameters
    ----------
    pod : PodResult
        A pod that succeeded, with the latest times that the API allows.
    printed : PrintedTimes
    began_unix_s : float
        When the scenario began, seconds since 1970.

    Examples
    --------
    >>> pod = PodResult("pi-0", "pi", "node-0", 0.0, 0.1, 1.0, 4.0, "succeeded")
    >>> exact = dated_by_program(pod, PrintedTimes(1.5, 100.5, 103.25), 100.0)
    >>> exact.started_s, exact.finished_s, exact.cpu_s
    (0.5, 3.25, 1.5)
    """
    pod = msgspec.structs.replace(pod, cpu_s=printed.cpu_s)
    if pod.started_s is None or pod.finished_s is None:
        return pod
    earliest_s = pod.created_s if pod.scheduled_s is None else pod.scheduled_s
    began_s, ended_s = printed.began_unix_s - began_unix_s, printed.ended_unix_s - began_unix_s
    if not earliest_s - _TOLERANCE_S <= began_s <= ended_s <= pod.finished_s + _TOLERANCE_S:
        return pod  # the clock of the pod's node differs from ours
    started_s = min(max(began_s, earliest_s), pod.started_s)
    finished_s = min(max(ended_s, started_s), pod.finished_s)
    return msgspec.structs.replace(pod, started_s=started_s, finished_s=finished_s)


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
