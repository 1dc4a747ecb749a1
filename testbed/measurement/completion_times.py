"""Completion times of pods (from start to end) and of jobs, and how pods ended (thesis §5.1, §5.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from testbed.errors import ResultsError
from testbed.measurement.statistics import summary
from testbed.results.schema import DataItem, PodResult, Repetition
from workloads.scenario import JobSpec


def pod_completion_times(pods: list[PodResult], job: str | None = None) -> list[float]:
    """Seconds from start to completion of every pod that succeeded, of one job or of all."""
    return [
        pod.finished_s - pod.started_s
        for pod in pods
        if pod.outcome == "succeeded"
        and pod.started_s is not None
        and pod.finished_s is not None
        and job in (None, pod.job)
    ]


def job_completion_time_s(job: JobSpec, pods: list[PodResult], published_s: float) -> float | None:
    """Seconds from a Job's publication to the end of its last pod; None if the Job did not complete."""
    ends = [
        pod.finished_s
        for pod in pods
        if pod.job == job.name and pod.outcome == "succeeded" and pod.finished_s is not None
    ]
    return round(max(ends) - published_s, 6) if len(ends) >= job.pods else None


def completion_time_items(pods: list[PodResult], completion_s: dict[str, float | None]) -> list[DataItem]:
    """Data items `pod_completion_time`, `pod_wait_time`, `pod_outcome` and `job_completion_time` of the named jobs."""
    items = []
    for job, seconds in completion_s.items():
        mine = [pod for pod in pods if pod.job == job]
        times = pod_completion_times(mine)
        if times:
            items.append(DataItem(summary(times), "s", {"metric": "pod_completion_time", "job": job}))
        waits = [pod.started_s - pod.created_s for pod in mine if pod.started_s is not None]
        if waits:
            items.append(DataItem(summary(waits), "s", {"metric": "pod_wait_time", "job": job}))
        outcomes = Counter(pod.outcome for pod in mine)
        counts: dict[str, float] = {outcome: float(count) for outcome, count in sorted(outcomes.items())}
        if counts:
            items.append(DataItem(counts, "pods", {"metric": "pod_outcome", "job": job}))
        if seconds is not None:
            items.append(DataItem({"value": seconds}, "s", {"metric": "job_completion_time", "job": job}))
    return items


def why_incomplete(repetition: Repetition, job: str) -> str:
    """Return why a job did not complete, as far as its pods show."""
    mine = [pod for pod in repetition.pods if pod.job == job]
    done = sum(pod.outcome == "succeeded" for pod in mine)
    text = f"{done} of {repetition.measured_jobs[job]} pods succeeded"
    lost = Counter(pod.outcome for pod in mine if pod.outcome in ("failed", "evicted", "oom_killed"))
    limit_s = repetition.settings.get("limit_s")
    lasted_s = max((at for node in repetition.nodes[:1] for at in node.time_s), default=0.0)
    if limit_s is not None and lasted_s >= limit_s - 1:
        return f"{text} until the run was cut off at limit_s = {limit_s:g}"
    spec = next((one for one in repetition.settings.get("jobs", []) if one["name"] == job), None)
    if spec is None or not lost:
        return text
    how = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in sorted(lost.items()))
    limits = ", ".join(f"{name} {spec[name]}" for name in ("on_oom_kill", "on_disruption"))
    return f"{text}; its Job gave up ({how}; backoff_limit is {spec['backoff_limit']}, {limits})"


def pod_completion_summary(repetitions: Sequence[Repetition], job: str) -> dict[str, float]:
    """Summary of the pod completion times of a job, seconds, over all repetitions.

    Raises
    ------
    ResultsError
        If no pod of the job succeeded.
    """
    times = [time for repetition in repetitions for time in pod_completion_times(repetition.pods, job)]
    if not times:
        raise ResultsError(f"no pod of job {job} succeeded: there is no completion time to summarise")
    return summary(times)


def mean_job_completion_s(repetitions: Sequence[Repetition], job: str) -> float:
    """Mean job completion time over the repetitions, seconds.

    Raises
    ------
    ResultsError
        If there is no repetition, or the job did not complete in one.
    """
    seconds = [repetition.job_completion_time_s.get(job) for repetition in repetitions]
    completed = [second for second in seconds if second is not None]
    if not seconds or len(completed) < len(seconds):
        raise ResultsError(
            f"job {job} completed in {len(completed)} of {len(seconds)} repetitions: a mean needs all of them"
        )
    return sum(completed) / len(completed)
