"""What a test measured, as user properties of its report: JUnit files, pytest-html and reportlog show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.results.schema import Repetition

MOST = 50
"""The most properties of one scheduler: the jobs of a trace would be too many, and are in the results file."""


def properties_of(repetitions: Iterable[Repetition]) -> Iterator[tuple[str, float]]:
    """Yield the mean of each figure over the repetitions that have it, by scheduler.

    Examples of names: ``carico: job_completion_time (pi-2000), s``, ``carico: repetitions``.
    """
    from statistics import fmean

    from testbed.comparison.measured import measured
    from testbed.measurement.metrics import METRICS

    for one in measured(repetitions):
        yield f"{one.scheduler}: repetitions", len(one.seeds)
        for series in one.series[:MOST]:
            if values := [value for value in series.values if value is not None]:
                yield f"{one.scheduler}: {series.figure}, {METRICS[series.metric].unit}", fmean(values)
