"""Comparing two runs: what both measured, figure by figure, with verdicts on the whole table.

What only one of them measured is said, and what was measured under other settings is `incomparable`: a difference would
say nothing about the schedulers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from testbed.comparison import LEAST
from testbed.comparison.difference import Difference, completion_difference, difference
from testbed.comparison.measured import Measured
from testbed.comparison.verdicts import LEVEL, MARGIN, Verdict, judged, undecided
from testbed.measurement.metrics import DEFAULT, METRICS, Figure
from testbed.results.schema import SCHEDULER


@dataclass(frozen=True)
class Compared:
    """A figure that both runs measured."""

    title: str
    """What was run."""
    against: str
    """The reference's scheduler where it is another than the candidate's, else empty."""
    figure: Figure
    reference: float
    candidate: float
    """Means over the repetitions that are compared."""
    difference: Difference
    lacking: int
    """Repetitions of the candidate that lack the figure, as where a job did not complete."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    title: str
    verdict: Verdict
    compared: Compared | None = None
    reason: str = ""
    """Why the verdict is `incomparable` or `inconclusive`; else empty."""


@dataclass(frozen=True)
class Pairing:
    """What is compared with what."""

    pairs: list[tuple[Measured, Measured]]
    """Reference and candidate, with the same scenario, scheduler and settings."""
    incomparable: list[tuple[str, str]]
    """The candidate's title, and the settings that differ."""
    only_reference: list[str]
    only_candidate: list[str]


def paired(reference: Sequence[Measured], candidate: Sequence[Measured]) -> Pairing:
    """Find out what of two runs can be compared."""
    pairs, incomparable, only_candidate = [], [], []
    matched: set[int] = set()
    for ours in candidate:
        same = [one for one in reference if (one.scenario, one.scheduler) == (ours.scenario, ours.scheduler)]
        if not same:
            only_candidate.append(ours.title)
            continue
        nearest = min(same, key=lambda one: len(differing(one.settings, ours.settings)))
        matched.add(id(nearest))
        if differs := differing(nearest.settings, ours.settings):
            incomparable.append((ours.title, f"other settings: {', '.join(differs)}"))
        else:
            pairs.append((nearest, ours))
    return Pairing(pairs, incomparable, [one.title for one in reference if id(one) not in matched], only_candidate)


def among_schedulers(found: Iterable[Measured], reference: str | None) -> tuple[Pairing, list[str]]:
    """Pair the schedulers of one run with the reference, where scenario and settings are the same.

    Parameters
    ----------
    found : iterable of Measured
        What the run measured.
    reference : str, optional
        The scheduler that the others are compared with; by default the first of each scenario.

    Returns
    -------
    Pairing
    list of str
        What was run under several schedulers, but not under the reference that was asked for.
    """
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in found:
        shared = sorted((name, value) for name, value in one.settings.items() if name != SCHEDULER)
        groups.setdefault((one.scenario, repr(shared)), []).append(one)
    pairs, lacking = [], []
    for mine in groups.values():
        names = [one.scheduler for one in mine]
        if reference is not None and reference not in names:
            lacking += [one.title for one in mine] if len(mine) > 1 else []
            continue
        theirs = mine[0] if reference is None else mine[names.index(reference)]
        pairs += [(theirs, ours) for ours in mine if ours is not theirs]
    return Pairing(pairs, [], [], []), lacking


def compared(
    reference: Measured, candidate: Measured, wanted: Iterable[Figure] = DEFAULT, *, every: bool = False
) -> Iterator[Compared]:
    """Compare figures that the reference has, of every job and phase that it was measured for.

    If one side has all seeds of the other and more, as a baseline of fewer repetitions, the common ones are compared.

    Parameters
    ----------
    reference, candidate : Measured
    wanted : iterable of Figure
    every : bool
        Whether counts of pods are compared even if they are 0 everywhere.
    """
    kinds = {(figure.metric, figure.statistic) for figure in wanted}
    for figure in [one.figure for one in reference.series if (one.metric, one.statistic) in kinds]:
        theirs, ours = reference.by_seed(figure), candidate.by_seed(figure)
        one, other = ({seed: value for seed, value in side.items() if value is not None} for side in (theirs, ours))
        if figure.metric == "pod_outcome" and not (every or any((*one.values(), *other.values()))):
            continue  # nothing happened
        if len(one) < len(reference.seeds) or len(other) < len(candidate.seeds):
            found = completion_difference(
                {seed: one.get(seed) for seed in reference.seeds}, {seed: other.get(seed) for seed in candidate.seeds}
            )
        else:
            one, other = _of_common_seeds(one, other)
            relative = METRICS[figure.metric].relative and min(*one.values(), *other.values()) > 0
            found = difference(one, other, relative=relative)
        before, after = (fmean(side.values()) if side else math.nan for side in (one, other))
        against = "" if reference.scheduler == candidate.scheduler else reference.scheduler
        yield Compared(
            candidate.title, against, figure, before, after, found, sum(value is None for value in ours.values())
        )


def _of_common_seeds(one: dict[int, float], other: dict[int, float]) -> tuple[dict[int, float], dict[int, float]]:
    """Leave out what only one side has, if the other has nothing else: pairs say more than further repetitions do."""
    common = one.keys() & other.keys()
    if len(common) < LEAST or len(common) < min(len(one), len(other)):
        return one, other
    return (
        {seed: one[seed] for seed in one if seed in common},
        {seed: other[seed] for seed in other if seed in common},
    )


def rows_of(
    pairing: Pairing, wanted: Sequence[Figure] = DEFAULT, *, margin: float = MARGIN, level: float = LEVEL
) -> list[Row]:
    """Return all comparisons with their verdicts.

    Parameters
    ----------
    pairing : Pairing
    wanted : sequence of Figure
        Metrics and statistics; each is compared for every job and phase that has it.
    margin : float
        Differences up to this share are ok.
    level : float
        The probability of any false `regressed` or `improved`.
    """
    found = [each for pair in pairing.pairs for each in compared(*pair, wanted)]
    less = [METRICS[each.figure.metric].less_is_better for each in found]
    verdicts = judged([each.difference for each in found], less_is_better=less, margin=margin, level=level)
    rows = [
        Row(each.title, verdict, each, undecided(each.difference, direction) if verdict == "inconclusive" else "")
        for each, verdict, direction in zip(found, verdicts, less, strict=True)
    ]
    return rows + [Row(title, "incomparable", reason=reason) for title, reason in pairing.incomparable]


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the settings that differ, each with both values where they are short.

    Examples
    --------
    >>> differing({"nodes": 2, "steal": 0.1}, {"nodes": 3, "steal": 0.1, "cores": 4})
    ['cores (none, 4)', 'nodes (2, 3)']
    """
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    told = []
    for name in names:
        values = ", ".join("none" if side.get(name) is None else str(side[name]) for side in (one, other))
        told.append(f"{name} ({values})" if len(values) <= 30 else name)
    return told
