"""The cost of scheduling itself: how long pods wait for a node, and how many are bound per second."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.measurement.statistics import summary
from testbed.results.schema import DataItem, PodResult


def scheduling_items(pods: list[PodResult], jobs: Iterable[str]) -> list[DataItem]:
    """Data items `pod_scheduling_latency` (created → bound) and `scheduling_throughput` of the named jobs.

    Throughput is measured from the creation of a job's first pod to the binding of its last; a single pod has none.
    """
    items = []
    for job in jobs:
        bound = [(pod.created_s, pod.scheduled_s) for pod in pods if pod.job == job and pod.scheduled_s is not None]
        if not bound:
            continue
        latencies = [scheduled - created for created, scheduled in bound]
        items.append(DataItem(summary(latencies), "s", {"metric": "pod_scheduling_latency", "job": job}))
        took = max(scheduled for _, scheduled in bound) - min(created for created, _ in bound)
        if len(bound) > 1 and took > 0:
            rate = {"value": len(bound) / took}
            items.append(DataItem(rate, "pods/s", {"metric": "scheduling_throughput", "job": job}))
    return items
