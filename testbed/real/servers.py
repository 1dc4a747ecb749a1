"""Servers as real pods: a server and its client in one pod, and what the client measured, read from its log."""

from __future__ import annotations

import re
from collections.abc import Mapping

from testbed.real.api import Json
from testbed.results.schema import PodResult, RequestSeries
from workloads.commands import server_commands
from workloads.scenario import JobSpec

CLIENT = "client"
_PORT = 8080
_ANSWER = re.compile(r"^due_unix_s=([0-9.]+) latency_s=([0-9.]+)$", re.MULTILINE)


def server_spec(job: JobSpec, pulled: Mapping[str, str]) -> Json:
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
