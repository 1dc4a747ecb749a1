"""Totals of scenarios with very many jobs, such as traces: nobody reads a hundred tables."""

from __future__ import annotations

from statistics import fmean

import msgspec

from testbed.measurement.completion_times import completion_time_items
from testbed.results.schema import DataItem, Repetition

MANY_JOBS = 10
"""Of a scenario with more jobs than this, only totals are shown and compared."""
_COMPLETION = ("pod_completion_time", "pod_wait_time", "pod_outcome", "job_completion_time")


def has_many_jobs(repetition: Repetition) -> bool:
    """Whether only totals of the jobs are of interest."""
    return len(repetition.measured_jobs) > MANY_JOBS


def all_jobs(repetition: Repetition) -> str:
    """Return what the jobs are called together."""
    return f"all {len(repetition.measured_jobs)} jobs"


def mean_completion_s(repetition: Repetition) -> float | None:
    """Return the mean of the jobs' completion times in seconds; None unless all of them completed."""
    times = [repetition.job_completion_time_s.get(job) for job in repetition.measured_jobs]
    completed = [seconds for seconds in times if seconds is not None]
    return fmean(completed) if times and len(completed) == len(times) else None


def shown_items(repetition: Repetition) -> list[DataItem]:
    """Return the data items; if there are many jobs, totals take the place of the completion times of each."""
    if not has_many_jobs(repetition):
        return repetition.data_items
    jobs, name = repetition.measured_jobs, all_jobs(repetition)
    pods = [msgspec.structs.replace(pod, job=name) for pod in repetition.pods if pod.job in jobs]
    others = [
        item
        for item in repetition.data_items
        if item.labels.get("job") not in jobs or item.labels.get("metric") not in _COMPLETION
    ]
    return [*completion_time_items(pods, {name: mean_completion_s(repetition)}), *others]
