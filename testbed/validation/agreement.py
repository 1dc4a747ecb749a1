"""How well the simulated cluster agrees with a real one: completion times of the same scenario, side by side. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from testbed.comparison.intervals import LEAST_FOR_INTERVAL, bootstrap_interval, mean_interval, resampled
from testbed.errors import ResultsError
from testbed.measurement.completion_times import pod_completion_times
from testbed.report.numbers import WIDTH, seconds
from testbed.results.schema import Repetition

AIM = 0.10
"""The largest acceptable difference of a simulated mean PCT, relative to the real one."""


@dataclass(frozen=True)
class Agreement:
    """One figure of a job under a scheduler, repetition by repetition."""

    scheduler: str
    job: str
    figure: str
    """`mean PCT` or `JCT`."""
    real: list[float]
    simulated: list[float]
    """Seconds, one value for each repetition."""

    @property
    def ratio(self) -> float:
        """The simulated mean divided by the real mean."""
        return fmean(self.simulated) / fmean(self.real)

    @property
    def ratio_interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of the ratio; with fewer than six real repetitions, the ratios to their extremes."""
        if len(self.real) < LEAST_FOR_INTERVAL:
            mean = fmean(self.simulated)
            return mean / max(self.real), mean / min(self.real)
        rng = np.random.default_rng(0)
        real, simulated = (resampled(values, rng).mean(axis=1) for values in (self.real, self.simulated))
        return bootstrap_interval(simulated / real)


def agreements(real: Sequence[Repetition], simulated: Sequence[Repetition]) -> list[Agreement]:
    """Return both figures of every job and scheduler.

    Raises
    ------
    ResultsError
        If a job did not complete, so that there is no time to compare.
    """
    return [
        Agreement(
            scheduler,
            job,
            figure,
            real=_of(real, scheduler, job, seconds_of),
            simulated=_of(simulated, scheduler, job, seconds_of),
        )
        for job in real[0].measured_jobs
        for figure, seconds_of in (("mean PCT", _mean_pct), ("JCT", _jct))
        for scheduler in dict.fromkeys(one.scheduler for one in real)
    ]


def agreement_table(rows: Iterable[Agreement]) -> list[str]:
    """Return a table, 80 columns wide."""
    lines = [f"  {'scheduler':17}{'kind s [interval]':>21}{'simulated [interval]':>22}{'ratio [interval]':>18}"]
    title = ""
    for row in rows:
        if title != (title := f"{row.job} · {row.figure}"):
            lines.append(title)
        low, high = row.ratio_interval
        real, simulated = map(_with_interval, (row.real, row.simulated))
        ratio = f"{row.ratio:.2f} [{low:.2f}, {high:.2f}]"
        name = row.scheduler
        if len(name) > 16:
            lines.append(f"  {name}")
            name = ""
        lines.append(f"  {name:17}{real:>21}{simulated:>22}{ratio:>18}")
    note = (
        f"Means over the repetitions; in brackets 95 % intervals, below {LEAST_FOR_INTERVAL} repetitions the extremes. "
        f"The aim is a ratio of mean PCT within {AIM:.0%} of 1."
    )
    return [*lines, *textwrap.wrap(note, WIDTH)]


def _with_interval(values: Sequence[float]) -> str:
    low, high = mean_interval(values)
    return f"{seconds(fmean(values))} [{seconds(low)}, {seconds(high)}]"


def _of(
    runs: Iterable[Repetition], scheduler: str, job: str, seconds_of: Callable[[Repetition, str], float]
) -> list[float]:
    return [seconds_of(one, job) for one in runs if one.scheduler == scheduler]


def _mean_pct(repetition: Repetition, job: str) -> float:
    _jct(repetition, job)
    return fmean(pod_completion_times(repetition.pods, job))


def _jct(repetition: Repetition, job: str) -> float:
    taken = repetition.job_completion_time_s[job]
    if taken is None:
        raise ResultsError(
            f"job {job} did not complete under {repetition.scheduler} with seed {repetition.seed}: only completed jobs "
            f"can be compared; raise the scenario's limit_s, or ask for fewer pods"
        )
    return taken
