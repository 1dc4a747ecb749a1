"""A repetition as in the results: the pods and series that a cluster measured, and all data items derived from them.

All providers put their repetitions together here. Times are rounded to microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from testbed.measurement.completion_times import completion_time_items, job_completion_time_s
from testbed.measurement.request_latency import latency_items
from testbed.measurement.utilisation import utilisation_items
from testbed.results.schema import DataItem, NodeSeries, PodResult, Repetition, RequestSeries
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import Scenario


def repetition_of(
    scenario: Scenario,
    scheduler: SchedulerSpec,
    seed: int,
    *,
    settings: Mapping[str, Any],
    pods: Iterable[PodResult],
    nodes: list[NodeSeries],
    requests: list[RequestSeries] | None = None,
    published_s: Mapping[str, float] | None = None,
    more_items: Iterable[DataItem] = (),
) -> Repetition:
    """Return the repetition with its job completion times and data items.

    Parameters
    ----------
    scenario : Scenario
    scheduler : SchedulerSpec
    seed : int
    settings : mapping
        The provider's settings; those of the scenario and of the scheduler are added.
    pods : iterable of PodResult
    nodes : list of NodeSeries
    requests : list of RequestSeries, optional
        The measurements of the servers' clients.
    published_s : mapping of str to float, optional
        When each Job was published, seconds; by default as its scenario says.
    more_items : iterable of DataItem
        Data items that only this provider measures.
    """
    pods, requests = [_rounded(pod) for pod in pods], requests or []
    completion = {
        job.name: job_completion_time_s(
            job, pods, job.start_s if published_s is None else published_s.get(job.name, job.start_s)
        )
        for job in scenario.jobs
        if not job.disturbance
    }
    return Repetition(
        scenario=scenario.name,
        scheduler=scheduler.text,
        seed=seed,
        settings=settings_of_scenario(scenario) | dict(settings) | scheduler.settings,
        job_completion_time_s=completion,
        pods=pods,
        nodes=nodes,
        data_items=[
            *completion_time_items(pods, completion),
            *utilisation_items(nodes),
            *latency_items(requests, pods, completion),
            *more_items,
        ],
        requests=requests,
    )


def _rounded(pod: PodResult) -> PodResult:
    names = ("created_s", "scheduled_s", "started_s", "finished_s")
    times = {name: None if (at := getattr(pod, name)) is None else round(at, 6) for name in names}
    return msgspec.structs.replace(pod, **times)


def settings_of_scenario(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario's part of the settings, so that a results file explains itself."""
    shape = scenario.cluster
    return {
        "jobs": msgspec.to_builtins(scenario.jobs),
        "limit_s": scenario.limit_s,
        "node_changes": msgspec.to_builtins(scenario.node_changes),
        "nodes": shape.nodes,
        "cores": shape.cores,
        "memory": shape.memory,
        "max_pods": shape.max_pods,
        "pools": msgspec.to_builtins(shape.pools),
    }
