"""Results as plain text, 80 columns wide. Pure: lines in the order of a results file, no colour, no terminal."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from testbed.comparison import LEAST
from testbed.comparison.difference import Difference
from testbed.comparison.intervals import LEAST_FOR_INTERVAL, median_interval
from testbed.comparison.verdicts import MARGIN
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.statistics import summary
from testbed.measurement.stolen_cpu import (
    MENTIONED_FROM,
    RETRIED_FROM,
    discarded_attempts,
    stolen_from_nodes,
    stolen_shares,
)
from testbed.report.groups import TOTALS_NOTE, Group, sections_of
from testbed.report.judgements import Judged, judged_rows, median
from testbed.report.numbers import WIDTH, comparisons, seconds, titled
from testbed.results.schema import Repetition

FIGURES = ("min", "p25", "p50", "p75", "max")


def distributions(repetitions: Sequence[Repetition]) -> list[str]:
    """Return a table for every job: the completion times of its pods and the job's own, under each scheduler.

    Pods of all repetitions of a scheduler are taken together; the job's own completion time is the median.
    """
    lines = []
    header = (
        f"  {'scheduler':19}{'PCT s: mean ± std':>17}" + "".join(f"{name:>7}" for name in FIGURES) + f"{'JCT s':>7}"
    )
    groups = _titled_groups(repetitions)
    for title, group in groups:
        lines += [*titled(title), header]
        for scheduler, mine in group.runs.items():
            lines += _distribution(scheduler, group, mine)
        lines.append("")
    return [*lines[:-1], *_totals_note([group for _, group in groups])]


def medians(repetitions: Sequence[Repetition], reference: str | None = None) -> list[str]:
    """Return a table with the medians over the repetitions for every job and scheduler, and how they compare.

    A scheduler's name has a line of its own: beside two intervals there would be no room for it.

    Parameters
    ----------
    repetitions : sequence of Repetition
    reference : str, optional
        The scheduler that others are compared with; where it was not run, and by default, the first of each group. The
        reference is never chosen by how it fared: the fastest of several is the luckiest, too.
    """
    rows = judged_rows(repetitions, reference)
    compared = sum(row.difference is not None for row in rows)
    lines = [f"    {'n':>3}{'JCT s [interval]':>21}{'PCT s [interval]':>21}"]
    if compared:
        lines[0] += f"{'JCT / reference':>18}{'verdict':>13}"
    for title, mine in groupby(rows, lambda row: row.title):
        lines += titled(title)
        for row in mine:
            lines += _median_row(row)
    note = (
        f"Medians over n repetitions, of PCT those of its mean; in brackets 95 % intervals, of times the extremes "
        f"below {LEAST_FOR_INTERVAL} repetitions."
    )
    if reference is not None and not any(reference == row.scheduler for row in rows):
        note += f" {reference}, the reference that was asked for, was not run: the first of each group took its place."
    if compared:
        note += (
            f" JCT is compared with the reference's, seed by seed where the seeds are the same. A verdict is corrected "
            f"for {comparisons(compared)} of this table (Holm, 5 %); ok means within "
            f"{100 * MARGIN:g} %, and below {LEAST} repetitions all is inconclusive."
        )
    totals = _totals_note([row.group for row in rows])
    return [*lines, *textwrap.wrap(note, WIDTH), *totals, *stolen_note(repetitions)]


def _titled_groups(repetitions: Sequence[Repetition]) -> list[tuple[str, Group]]:
    return [(section.title_of(group), group) for section in sections_of(repetitions) for group in section.groups]


def _totals_note(groups: Sequence[Group]) -> list[str]:
    return textwrap.wrap(TOTALS_NOTE, WIDTH) if any(group.total for group in groups) else []


def _median_row(row: Judged) -> list[str]:
    jct = f"{row.lacking} did not complete" if row.lacking else with_interval(row.jct_s, row.interval_s)
    effect = "reference" if row.is_reference else "" if row.difference is None else effect_of(row.difference)
    pct = with_interval(row.pct_s, row.pct_interval_s)
    line = f"    {row.n:>3}{jct:>21}{pct:>21}{effect:>18}{row.verdict or '':>13}"
    return [f"  {row.scheduler}", line.rstrip()]


def stolen_note(repetitions: Sequence[Repetition]) -> list[str]:
    """Return a note on CPU time that other guests took, if it was enough to disturb a repetition."""
    shares = sorted(stolen_shares(repetitions))
    note = ""
    if shares and shares[-1] >= MENTIONED_FROM:
        note = (
            f"The machine's hypervisor gave {100 * shares[0]:.0f} to {100 * shares[-1]:.0f} % (median "
            f"{100 * np.median(shares):.0f} %) of its CPU time to others while repetitions ran: times and "
            f"pressures are those of a slower machine, and vary with this share. "
        )
    of_nodes = sorted(stolen_from_nodes(repetitions))
    if of_nodes and of_nodes[-1] >= MENTIONED_FROM:
        note += (
            f"The nodes' hypervisor gave {100 * of_nodes[0]:.0f} to {100 * of_nodes[-1]:.0f} % (median "
            f"{100 * np.median(of_nodes):.0f} %) of their CPU time to other guests. Nodes count it as utilisation, "
            f"though nothing was done in it. "
        )
    if discarded := discarded_attempts(repetitions):
        counts = ", ".join(f"{scheduler} {count}" for scheduler, count in discarded.items())
        note += (
            f"Attempts discarded because the machine's hypervisor gave {100 * RETRIED_FROM:g} % or more to others: "
            f"{counts}. They are in the run's folder; the results have summaries of them."
        )
    return textwrap.wrap(note, WIDTH)


def _distribution(scheduler: str, group: Group, repetitions: Sequence[Repetition]) -> list[str]:
    pods = [pod for one in repetitions for pod in group.pods(one)]
    times, completions = pod_completion_times(pods), _completions(repetitions, group)
    lines = [f"  {scheduler}"]
    if len(scheduler) > 18:
        lines.append("")
    cells = ["-"] * (1 + len(FIGURES))
    if times:
        all_of = summary(times)
        cells = [f"{seconds(all_of['mean'])} ± {seconds(all_of['std'])}", *(seconds(all_of[name]) for name in FIGURES)]
    jct = seconds(median(completions)) if len(completions) == len(repetitions) else "-"
    lines[-1] = f"{lines[-1]:21}{cells[0]:>17}" + "".join(f"{cell:>7}" for cell in [*cells[1:], jct])
    if len(completions) > 1:
        what = "extremes" if len(completions) < LEAST_FOR_INTERVAL else "95 % intervals"
        mean, median_jct = (_interval(values) for values in (group.mean_pod_times_s(scheduler), completions))
        told = f"{len(completions)} repetitions, {what}: mean PCT {mean}, JCT (median) {median_jct}"
        lines += textwrap.wrap(told, WIDTH, initial_indent="    ", subsequent_indent="      ")
    others = Counter(pod.outcome for pod in pods if pod.outcome != "succeeded")
    if others:
        lines.append("    pods: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(others.items())))
    return lines


def _completions(repetitions: Sequence[Repetition], group: Group) -> list[float]:
    return [taken for one in repetitions if (taken := group.completion_s(one)) is not None]


def effect_of(found: Difference) -> str:
    """Return a ratio with its interval; empty if not everything completed."""
    if not 0.0 < found.effect < math.inf:
        return ""
    if not found.enough:
        return _ratio(found.effect)
    return f"{_ratio(found.effect)} [{_ratio(found.low)}, {_ratio(found.high)}]"


def _ratio(value: float) -> str:
    """A ratio with as many decimals as an eye can compare."""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    """Return seconds with their interval, if there is one."""
    return seconds(value) if interval is None else f"{seconds(value)} {_bracketed(interval)}"


def _interval(values: Sequence[float]) -> str:
    """The interval as text; empty for a single value."""
    return "" if len(values) < 2 else _bracketed(median_interval(values))


def _bracketed(interval: tuple[float, float]) -> str:
    return f"[{seconds(interval[0])}, {seconds(interval[1])}]"
