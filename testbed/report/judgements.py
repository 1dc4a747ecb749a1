"""How the schedulers of a run compare: job completion times against a reference, judged as one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.comparison.difference import Difference, completion_difference, difference
from testbed.comparison.hindsight import Hindsight, against_the_best
from testbed.comparison.intervals import median_interval
from testbed.comparison.verdicts import Verdict, judged, undecided
from testbed.report.groups import Group, Section, sections_of
from testbed.results.schema import Repetition

REQUESTED = "kube-scheduler"
"""The scheduler that lives by the requests: which of them was best is known only in hindsight."""


@dataclass(frozen=True)
class Judged:
    """A job under one scheduler."""

    section: Section
    group: Group
    scheduler: str
    times_s: list[float]
    """The job's completion time in every repetition in which it completed."""
    difference: Difference | None
    """From the reference; None for the reference itself, and where nothing else was run."""
    verdict: Verdict | None

    @property
    def reason(self) -> str:
        """Why the verdict is `inconclusive`; else empty."""
        return undecided(self.difference) if self.difference and self.verdict == "inconclusive" else ""

    @property
    def title(self) -> str:
        """What was run."""
        return self.section.title_of(self.group)

    @property
    def n(self) -> int:
        """Repetitions."""
        return len(self.group.runs[self.scheduler])

    @property
    def lacking(self) -> int:
        """Repetitions in which the job did not complete."""
        return self.n - len(self.times_s)

    @property
    def is_reference(self) -> bool:
        """Whether the others are compared with this one."""
        return self.difference is None and len(self.group.runs) > 1

    @property
    def jct_s(self) -> float | None:
        """The median of the job's completion times."""
        return median(self.times_s)

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """The 95 % interval of the median, the extremes below six values; None below two."""
        return median_interval(self.times_s) if len(self.times_s) > 1 else None

    @property
    def pct_s(self) -> float | None:
        """The median over the repetitions of the pods' mean completion time."""
        return median(self._pct_means_s)

    @property
    def pct_interval_s(self) -> tuple[float, float] | None:
        """The interval of that median; see `interval_s`."""
        means = self._pct_means_s
        return median_interval(means) if len(means) > 1 else None

    @property
    def _pct_means_s(self) -> list[float]:
        return self.group.mean_pod_times_s(self.scheduler)


def judged_rows(repetitions: Sequence[Repetition], reference: str | None = None) -> list[Judged]:
    """Compare the schedulers of every job; verdicts are corrected for all comparisons together.

    Parameters
    ----------
    repetitions : sequence of Repetition
    reference : str, optional
        The scheduler that others are compared with; where it was not run, and by default, the first of each group. The
        reference is never chosen by how it fared: the fastest of several is the luckiest, too.
    """
    places = [
        (section, group, scheduler)
        for section in sections_of(repetitions)
        for group in section.groups
        for scheduler in group.runs
    ]
    differences = {
        place: jct_difference(group, against, scheduler)
        for place, (_, group, scheduler) in enumerate(places)
        if scheduler != (against := reference_of(group.runs, reference))
    }
    verdicts = dict(zip(differences, judged(list(differences.values())), strict=True))
    return [
        Judged(
            section,
            group,
            scheduler,
            [taken for one in group.runs[scheduler] if (taken := group.completion_s(one)) is not None],
            differences.get(place),
            verdicts.get(place),
        )
        for place, (section, group, scheduler) in enumerate(places)
    ]


def reference_of(schedulers: Iterable[str], named: str | None) -> str:
    """Return the scheduler that the others are compared with: the named one if it was run, else the first."""
    schedulers = list(schedulers)
    return named if named is not None and named in schedulers else schedulers[0]


def jct_difference(group: Group, reference: str, candidate: str) -> Difference:
    """Return how long the job takes under the candidate; where it did not always complete, how often it did."""
    theirs, ours = group.completions_s(reference), group.completions_s(candidate)
    if None in theirs.values() or None in ours.values():
        return completion_difference(theirs, ours)
    return difference(theirs, ours)  # type: ignore[arg-type]


def in_hindsight(group: Group) -> dict[str, Hindsight]:
    """Return how each scheduler without requests compares with the best request, of those with which the job completes.

    Empty unless at least two requests were tried.
    """
    found = {name: group.completions_s(name) for name in group.runs}
    whole: dict[str, dict[int, float]] = {
        name: times  # type: ignore[misc]
        for name, times in found.items()
        if None not in times.values()
    }
    choices = {name: times for name, times in whole.items() if name.partition(":")[0] == REQUESTED}
    if len(choices) < 2:
        return {}
    return {
        name: against_the_best(times, choices)
        for name, times in whole.items()
        if name not in choices and set(times).intersection(*choices.values())
    }


def median(values: Sequence[float]) -> float | None:
    """Return the median; None of nothing."""
    return float(np.median(values)) if values else None
