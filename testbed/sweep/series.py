"""What a sweep found, as numbers for tables, figures and files: a series for every scheduler. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from testbed.comparison.intervals import mean_interval
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.utilisation import running_pods
from testbed.results.schema import Repetition
from testbed.sweep.axis import base_of
from testbed.sweep.sweep import Sweep


class Estimate(msgspec.Struct, frozen=True):
    """A mean over repetitions, with its 95 % interval."""

    mean: float
    low: float
    high: float


class SweepPoint(msgspec.Struct, frozen=True):
    """A scheduler at a value of the axis."""

    value: str | None
    """As typed; None if the axis does not change the scheduler, which is then the same everywhere."""
    spec: str
    repetitions: int
    completed: int
    """Repetitions in which every job completed."""
    job_completion_s: Estimate | None
    """Of the job that took longest, over the completed repetitions; None if there is none."""
    pod_completion_s: Estimate | None
    """Mean over the pods that succeeded."""
    oom_killed: float
    """Pods killed for memory, mean over the repetitions."""
    most_pods: float
    """The most pods that ran on a node at a time, mean over the repetitions: where pods herd, it is high."""


class SweepSeries(msgspec.Struct, frozen=True):
    """A scheduler over the axis."""

    scheduler: str
    points: list[SweepPoint]
    """In the order of the axis; a single one if the axis does not change the scheduler."""

    @property
    def is_flat(self) -> bool:
        """Whether the axis does not change the scheduler."""
        return len(self.points) == 1 and self.points[0].value is None


def series_of(sweep: Sweep, repetitions: Sequence[Repetition]) -> list[SweepSeries]:
    """Return the series of all schedulers, as far as there are repetitions."""
    axis = sweep.axis
    order: list[str | None] = [None, *sweep.values]
    found = []
    for text in sweep.schedulers:
        taking_part = axis.scheduler is not None and base_of(text) == axis.scheduler
        specs = {axis.spec(text, value) for value in sweep.values} if taking_part else {text}
        by_value: dict[str | None, list[Repetition]] = {}
        for one in repetitions:
            if one.scheduler in specs:
                by_value.setdefault(axis.value_of(one), []).append(one)
        known = sorted((value for value in by_value if value in order), key=order.index)
        if known:
            found.append(SweepSeries(text, [_point(value, by_value[value]) for value in known]))
    return found


def as_csv(sweep: Sweep, found: Sequence[SweepSeries]) -> str:
    """Return the series as a table with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    estimates = ("job_completion_s", "pod_completion_s")
    columns = [f"{name}_{part}" for name in estimates for part in ("mean", "low", "high")]
    writer.writerow(["scheduler", sweep.over, "repetitions", "completed", *columns, "oom_killed", "most_pods"])
    for series in found:
        for point in series.points:
            numbers: list[float | str] = []
            for name in estimates:
                one = getattr(point, name)
                numbers += ["", "", ""] if one is None else [one.mean, one.low, one.high]
            numbers += [point.oom_killed, point.most_pods]
            writer.writerow([series.scheduler, point.value or "", point.repetitions, point.completed, *numbers])
    return text.getvalue()


def _point(value: str | None, repetitions: Sequence[Repetition]) -> SweepPoint:
    # In the order of the seeds: bootstrap intervals depend on it, and executors finish in any order.
    mine = sorted(repetitions, key=lambda one: one.seed)
    completions = [longest for one in mine if (longest := _longest_s(one)) is not None]
    return SweepPoint(
        value=value,
        spec=mine[0].scheduler,
        repetitions=len(mine),
        completed=len(completions),
        job_completion_s=_estimate(completions),
        pod_completion_s=_estimate([mean for one in mine if (mean := _mean_pod_s(one)) is not None]),
        oom_killed=_mean(mine, lambda one: sum(pod.outcome == "oom_killed" for pod in one.pods)),
        most_pods=_mean(mine, lambda one: float(running_pods(one).max(initial=0))),
    )


def _longest_s(repetition: Repetition) -> float | None:
    seconds = list(repetition.job_completion_time_s.values())
    completed = [one for one in seconds if one is not None]
    return max(completed) if completed and len(completed) == len(seconds) else None


def _mean_pod_s(repetition: Repetition) -> float | None:
    times = [time for job in repetition.measured_jobs for time in pod_completion_times(repetition.pods, job)]
    return float(np.mean(times)) if times else None


def _mean(repetitions: Sequence[Repetition], of: Callable[[Repetition], float]) -> float:
    return round(float(np.mean([of(one) for one in repetitions])), 6)


def _estimate(values: Sequence[float]) -> Estimate | None:
    if not values:
        return None
    low, high = mean_interval(values)
    return Estimate(*(round(float(one), 6) for one in (np.mean(values), low, high)))
