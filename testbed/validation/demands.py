"""What a scenario's programs take where nothing but their like runs: the CPU time that they tell themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import msgspec

from testbed.clusters.api import ClusterApi
from testbed.clusters.platform import Platform
from testbed.clusters.waiting import wait_until
from testbed.errors import ClusterError, UsageError
from workloads.scenario import JobSpec, Scenario, checked

_TIMEOUT_S = 600.0
_POLL_S = 0.5
_CPU_S = re.compile(r"\bcpu_s=(\d+(?:\.\d+)?)\b")
MEASURED = ("pi", "mlp")
"""Workloads whose programs tell what they took."""


def check_measurable(scenario: Scenario) -> None:
    """Check that all that a scenario's jobs take can be measured.

    Raises
    ------
    UsageError
        If not.
    """
    for job in scenario.jobs:
        if job.workload not in MEASURED:
            raise UsageError(
                f"job {job.name}: the workload {job.workload} does not tell what CPU time it took; those that do are "
                f"{', '.join(MEASURED)}: validate with a scenario of these"
            )


def measured_demands(
    api: ClusterApi,
    namespace: str,
    platform: Platform,
    scenario: Scenario,
    nodes: Sequence[str],
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, list[float]]:
    """Run a pod of every job on each node, one job after the other, and return their CPU-seconds by job.

    Parameters
    ----------
    api : ClusterApi
    namespace : str
        Has no other pods.
    platform : Platform
    scenario : Scenario
    nodes : sequence of str
        All are busy at the same time, as in the scenario: CPUs of one machine share its caches and its clock.
    rounds : int
    say : callable
        Is told what is going on.

    Raises
    ------
    ClusterError
        If a pod does not tell it, or does not end in time.
    KubeError
        If the API server does not answer, or refuses.
    """
    found: dict[str, list[float]] = {}
    for job in scenario.jobs:
        spec = platform.template(job, [], scenario)["spec"]
        for number in range(rounds):
            say(f"what a pod of {job.name} takes, {number + 1} of {rounds}")
            names = [f"{job.name}-{number}-{place}" for place in range(len(nodes))]
            for name, node in zip(names, nodes, strict=True):
                alone = {**spec, "nodeName": node, "restartPolicy": "Never"}
                api.create_pod(namespace, {"metadata": {"name": name}, "spec": alone})
            wait_until("the pods have ended", lambda: _unfinished(api, namespace), _TIMEOUT_S, _POLL_S)
            for name in names:
                found.setdefault(job.name, []).append(_told(api.log(namespace, name, job.workload), name))
    return found


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


def _unfinished(api: ClusterApi, namespace: str) -> str:
    pods, _ = api.pods_in(namespace).list()
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods}
    left = [f"{name} is {phase}" for name, phase in phases.items() if phase != "Succeeded"]
    if "Failed" in phases.values():
        raise ClusterError(f"pods that are measured must succeed: {', '.join(left)}; see their logs")
    return ", ".join(left)


def _told(log: str, pod: str) -> float:
    said = _CPU_S.search(log)
    if said is None:
        raise ClusterError(f"pod {pod} does not tell its CPU time, cpu_s=SECONDS, in its log: {log.strip()[:200]!r}")
    return float(said[1])
