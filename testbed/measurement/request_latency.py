"""Request latency: how long the clients of a server wait, before and while jobs run beside it (thesis §5.5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from testbed.errors import ResultsError
from testbed.measurement.statistics import summary
from testbed.results.schema import DataItem, PodResult, Repetition, RequestSeries

PHASES = BEFORE, DURING = "before", "during"


def request_latencies(repetitions: Sequence[Repetition], job: str, phase: str) -> list[float]:
    """Seconds that the requests to a server's job took, over all repetitions.

    Parameters
    ----------
    repetitions : sequence of Repetition
    job : str
    phase : {"before", "during"}
        Requests sent while measured jobs other than servers had pods ("during"), or earlier ("before").

    Raises
    ------
    ResultsError
        If there was no such request.
    """
    found = [
        latency
        for one in repetitions
        for latency in _latencies(one.requests, job, _spans(one.requests, one.pods, one.job_completion_time_s)[phase])
    ]
    if not found:
        raise ResultsError(f"nobody sent a request to job {job} {phase} the other jobs: is it a server, and was it up?")
    return found


def latency_items(requests: list[RequestSeries], pods: list[PodResult], measured: Iterable[str]) -> list[DataItem]:
    """Data items `request_latency` of every server's job; `measured` are the jobs that are not disturbances."""
    items = []
    for phase, span in _spans(requests, pods, measured).items():
        for job in sorted({series.job for series in requests}):
            latencies = _latencies(requests, job, span)
            if latencies:
                labels = {"metric": "request_latency", "job": job, "phase": phase}
                items.append(DataItem(summary(latencies), "s", labels))
    return items


def _spans(
    requests: list[RequestSeries], pods: list[PodResult], measured: Iterable[str]
) -> dict[str, tuple[float, float]]:
    """The time in which measured jobs other than servers ran, and the time before; without such jobs, all time."""
    working = set(measured) - {series.job for series in requests}
    mine = [pod for pod in pods if pod.job in working]
    begin = min((pod.created_s for pod in mine), default=math.inf)
    end = max((math.inf if pod.finished_s is None else pod.finished_s for pod in mine), default=math.inf)
    return {BEFORE: (-math.inf, begin), DURING: (begin, end)}


def _latencies(requests: list[RequestSeries], job: str, span: tuple[float, float]) -> list[float]:
    return [
        latency
        for series in requests
        if series.job == job
        for at, latency in zip(series.sent_s, series.latency_s, strict=True)
        if span[0] <= at < span[1]
    ]
