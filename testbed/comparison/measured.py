"""What a run measured, as far as comparisons need it: a number for each repetition and figure, without pods.

Small enough to be committed: this is what a baseline holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from testbed.measurement.metrics import DEFAULT, Figure, figures
from testbed.measurement.own import own_metrics
from testbed.results.schema import OwnMetric, Repetition


class Series(msgspec.Struct, frozen=True):
    """A figure of every repetition."""

    metric: str
    statistic: str
    of: tuple[str, ...]
    """What it was measured for, such as the job; see `Figure`."""
    values: list[float | None]
    """In the order of the seeds; None where it was not measured, as for a job that did not complete."""

    @property
    def figure(self) -> Figure:
        """The figure."""
        return Figure(self.metric, self.statistic, self.of)


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """The repetitions of one scenario under one scheduler, with the same settings."""

    scenario: str
    scheduler: str
    title: str
    """What was run, for people."""
    settings: dict[str, Any]
    """Everything else that decides the outcome."""
    seeds: list[int]
    series: list[Series]
    own_metrics: list[OwnMetric] = []
    """The metrics of the user's own among these."""
    by: str = ""
    """Of a baseline of several runs: the name of the run that measured it, unless it is the first of them."""

    def by_seed(self, figure: Figure) -> dict[int, float | None]:
        """Return a figure of every repetition by its seed; empty if it was never measured."""
        found = next((one for one in self.series if one.figure == figure), None)
        return {} if found is None else dict(zip(self.seeds, found.values, strict=True))


def measured(repetitions: Iterable[Repetition], wanted: Sequence[Figure] = DEFAULT) -> list[Measured]:
    """Return what repetitions measured, by scenario, scheduler and settings, in the order of a results file.

    Those of the A/A check are left out.

    Parameters
    ----------
    repetitions : iterable of Repetition
    wanted : sequence of Figure
        Metrics and statistics, of no job in particular.
    """
    found: dict[tuple[str, str, str], list[Repetition]] = {}
    for one in (each for each in repetitions if not each.of_aa_check):
        found.setdefault((one.scenario, one.scheduler, repr(sorted(one.settings.items()))), []).append(one)
    return [_measured(mine, wanted) for mine in found.values()]


def _measured(repetitions: Sequence[Repetition], wanted: Sequence[Figure]) -> Measured:
    one = repetitions[0]
    all_of = [figures(each, wanted) for each in repetitions]
    every = list(dict.fromkeys(figure for found in all_of for figure in found))
    pods, nodes = sum(one.measured_jobs.values()), len(one.nodes)
    return Measured(
        one.scenario,
        one.scheduler,
        f"{one.scenario} · {pods} pods · {nodes} nodes · {one.scheduler}",
        # As a file gives them back: a setting that is a tuple here would differ from the list there.
        msgspec.json.decode(msgspec.json.encode(one.settings)),
        [each.seed for each in repetitions],
        [
            Series(figure.metric, figure.statistic, figure.of, [found.get(figure) for found in all_of])
            for figure in every
        ],
        [own for own in own_metrics(repetitions) if own.name in {figure.metric for figure in every}],
    )
