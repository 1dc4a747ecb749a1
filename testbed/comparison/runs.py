"""Comparing two runs: what both measured, figure by figure, with verdicts on the whole table.

What only one of them measured is said, and what was measured under other settings is `incomparable`: a difference would
say nothing about the schedulers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.comparison.difference import Difference, difference
from testbed.comparison.verdicts import MARGIN, Verdict, judged
from testbed.measurement.metrics import DEFAULT, METRICS, Figure, figures
from testbed.results.schema import Repetition


@dataclass(frozen=True)
class Group:
    """The repetitions of one scenario under one scheduler, with the same settings."""

    scenario: str
    scheduler: str
    repetitions: tuple[Repetition, ...]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of all of them."""
        return self.repetitions[0].settings

    @property
    def title(self) -> str:
        """What was run, in a few words."""
        pods, nodes = sum(self.repetitions[0].measured_jobs.values()), len(self.repetitions[0].nodes)
        return f"{self.scenario} · {pods} pods · {nodes} nodes · {self.scheduler}"


@dataclass(frozen=True)
class Row:
    """One comparison of a table."""

    group: Group
    """The candidate's."""
    figure: Figure | None
    """None if nothing of the group can be compared."""
    reference: float
    candidate: float
    """Means over the repetitions."""
    difference: Difference | None
    verdict: Verdict
    reason: str = ""
    """Why it is incomparable."""


@dataclass(frozen=True)
class RunComparison:
    """The table of a comparison, and what is in only one of the runs."""

    rows: list[Row]
    only_reference: list[str]
    only_candidate: list[str]


def compare_runs(
    reference: Sequence[Repetition],
    candidate: Sequence[Repetition],
    wanted: Iterable[Figure] = DEFAULT,
    *,
    margin: float = MARGIN,
) -> RunComparison:
    """Compare what two runs measured.

    Parameters
    ----------
    reference, candidate : sequence of Repetition
    wanted : iterable of Figure
        Metrics and statistics; each is compared for every job and phase that has it.
    margin : float
        Differences up to this share are ok.
    """
    theirs, ours, wanted = groups(reference), groups(candidate), list(wanted)
    open_rows: list[tuple[Group, Figure, dict[int, float], dict[int, float], Difference]] = []
    rows: list[Row] = []
    matched: set[int] = set()
    only_candidate = []
    for group in ours:
        same = [one for one in theirs if (one.scenario, one.scheduler) == (group.scenario, group.scheduler)]
        equal = next((one for one in same if one.settings == group.settings), None)
        if equal is not None:
            matched.add(id(equal))
            open_rows += _open_rows(equal, group, wanted)
            continue
        if not same:
            only_candidate.append(group.title)
            continue
        nearest = min(same, key=lambda one: len(differing(one.settings, group.settings)))
        matched.add(id(nearest))
        why = f"other settings: {', '.join(differing(nearest.settings, group.settings))}"
        rows.append(Row(group, None, np.nan, np.nan, None, "incomparable", why))
    verdicts = judged(
        [one[4] for one in open_rows],
        less_is_better=[METRICS[one[1].metric].less_is_better is not False for one in open_rows],
        margin=margin,
    )
    compared = [
        Row(group, figure, float(np.mean(list(one.values()))), float(np.mean(list(other.values()))), found, verdict)
        for (group, figure, one, other, found), verdict in zip(open_rows, verdicts, strict=True)
    ]
    only_reference = [one.title for one in theirs if id(one) not in matched]
    return RunComparison(compared + rows, only_reference, only_candidate)


def groups(repetitions: Iterable[Repetition]) -> list[Group]:
    """Return the repetitions by scenario, scheduler and settings, in the order of a results file."""
    found: dict[tuple[str, str, str], list[Repetition]] = {}
    for one in repetitions:
        found.setdefault((one.scenario, one.scheduler, repr(sorted(one.settings.items()))), []).append(one)
    return [Group(scenario, scheduler, tuple(mine)) for (scenario, scheduler, _), mine in found.items()]


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


def _open_rows(
    reference: Group, candidate: Group, wanted: Sequence[Figure]
) -> list[tuple[Group, Figure, dict[int, float], dict[int, float], Difference]]:
    theirs, ours = ({one.seed: figures(one, wanted) for one in group.repetitions} for group in (reference, candidate))
    rows = []
    for figure in dict.fromkeys(figure for found in (*theirs.values(), *ours.values()) for figure in found):
        one, other = (
            {seed: all_of[figure] for seed, all_of in side.items() if figure in all_of} for side in (theirs, ours)
        )
        nothing_happened = figure.metric == "pod_outcome" and not any((*one.values(), *other.values()))
        if not one or not other or nothing_happened:
            continue
        relative = METRICS[figure.metric].relative and min(*one.values(), *other.values()) > 0
        rows.append((candidate, figure, one, other, difference(one, other, relative=relative)))
    return rows
