"""Manifests of a scenario's Jobs: pure functions from values to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from carico.demand.workload import LATENCY_CRITICAL
from testbed.experiment.workload_draws import WorkloadDraw
from testbed.real.api import RUN_LABEL, Json
from workloads.scenario import JobSpec, Requests

JOB_LABEL = "carico.dev/job"
"""Label of every pod; its value is the job's name in the scenario, as one job may be published as several Jobs."""
OOM_EXIT_CODE = 137


@dataclass(frozen=True)
class Publication:
    """Pods of a job that arrive at the same time."""

    at_s: float
    """Seconds since the scenario began."""
    job: JobSpec
    number: int
    """The number of this publication of the job, from 0 on."""
    work: list[float]
    """CPU-seconds of its pods."""


def publications(draws: list[WorkloadDraw]) -> list[Publication]:
    """Return the publications of a scenario by time; pods that arrive together are one Job."""
    found = []
    for draw in draws:
        together = groupby(zip(draw.arrivals, draw.work, strict=True), key=lambda pod: pod[0])
        for number, (arrival, pods) in enumerate(together):
            found.append(Publication(draw.job.start_s + arrival, draw.job, number, [work for _, work in pods]))
    return sorted(found, key=lambda one: one.at_s)


def job_manifest(
    published: Publication,
    template: Mapping[str, Any],
    *,
    requests: Requests,
    scheduler_name: str,
    first_node: str,
    run: str,
) -> Json:
    """Return a Job.

    Parameters
    ----------
    published : Publication
    template : mapping
        The pod template that the platform has made for the job.
    requests : Requests
        The requests of every pod under the scheduler under test.
    scheduler_name : str
        The pods' `schedulerName`.
    first_node : str
        The node that the job's `placement` asks for or excludes.
    run : str
        The value of our label.
    """
    job, pods = published.job, len(published.work)
    labels = {RUN_LABEL: run, JOB_LABEL: job.name}
    pod_labels = labels | ({LATENCY_CRITICAL: "true"} if job.latency_critical else {})
    metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
    container, *others = spec["containers"]
    spec |= {
        "containers": [container | {"resources": {"requests": quantities(requests)}}, *others],
        "restartPolicy": "Never",
        "schedulerName": scheduler_name,
    }
    if job.placement != "any":
        spec["affinity"] = _affinity(job.placement, first_node, spec.get("affinity") or {})
    body: Json = {
        "completions": pods,
        "parallelism": min(pods, job.parallelism or pods),
        "completionMode": "Indexed",
        "backoffLimit": job.backoff_limit,
        "template": {"metadata": metadata | {"labels": pod_labels}, "spec": spec},
    }
    if job.has_failure_policy:
        body["podFailurePolicy"] = {"rules": _rules(job)}
    return {"metadata": {"name": f"{job.name}-{published.number}", "labels": labels}, "spec": body}


def quantities(requests: Requests) -> dict[str, str]:
    """Return requests as a container has them, without those that are not given."""
    written = {"cpu": f"{requests.millicpu}m", "memory": str(requests.memory_bytes)}
    return {name: written[name] for name in written if getattr(requests, name) is not None}


def on_nodes(terms: list[Json]) -> Json:
    """Return an affinity to the nodes that one of the terms selects."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _affinity(placement: str, first_node: str, there: Mapping[str, Any]) -> Json:
    """Narrow the platform's own affinity, `there`, to the first node or to all other nodes."""
    only = {"key": "metadata.name", "operator": "In" if placement == "first" else "NotIn", "values": [first_node]}
    required = there.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return on_nodes([{**term, "matchFields": [only]} for term in required.get("nodeSelectorTerms", [{}])])


def _rules(job: JobSpec) -> list[Json]:
    """Return the rules of the pod failure policy; a failure that no rule names counts."""
    rules: list[Json] = []
    if job.on_disruption == "ignore":
        rules.append({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
    if job.on_oom_kill != "count":
        action = "Ignore" if job.on_oom_kill == "ignore" else "FailJob"
        rules.append({"action": action, "onExitCodes": {"operator": "In", "values": [OOM_EXIT_CODE]}})
    return rules
