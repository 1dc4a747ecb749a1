"""A sweep as plain text, 80 columns wide: what every scheduler did at every value. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from testbed.comparison.intervals import LEAST_FOR_INTERVAL
from testbed.report.numbers import WIDTH, counted, seconds, titled
from testbed.sweep.series import Estimate, SweepPoint, SweepSeries
from testbed.sweep.sweep import Sweep

NOTE = (
    "Means over the repetitions, in brackets their 95 % intervals (extremes below "
    f"{LEAST_FOR_INTERVAL} repetitions). JCT: of the job that took longest; PCT: of all pods that succeeded. most: the "
    "most pods that ran on a node at a time. OOM: pods killed for memory."
)


def sweep_table(sweep: Sweep, found: Sequence[SweepSeries]) -> list[str]:
    """Return the table, or nothing if nothing has been measured.

    Parameters
    ----------
    sweep : Sweep
    found : sequence of SweepSeries
        From `series_of`.
    """
    if not found:
        return []
    sizes = [counted(number, noun) for number, noun in ((sweep.pods, "pod"), (sweep.nodes, "node")) if number]
    changed = [f"{name}={value}" for name, value in sweep.settings.items()]
    title = " · ".join(
        [sweep.scenario, *sizes, f"over {sweep.over}", counted(sweep.repetitions, "repetition"), *changed]
    )
    width = min(19, max(16, len(sweep.over) + 1))
    lines = titled(title)
    lines.append(
        f"  {sweep.over[: width - 1]:{width}}{'JCT s [interval]':>23}{'PCT s [interval]':>23}{'most':>7}{'OOM':>6}"
    )
    for series in found:
        lines.append(f"{series.scheduler}{', the same everywhere' * series.is_flat}")
        lines += [_row(point, width) for point in series.points]
    return [*lines, *textwrap.wrap(NOTE, WIDTH)]


def _row(point: SweepPoint, width: int) -> str:
    jct = _shown(point.job_completion_s)
    if lacking := point.repetitions - point.completed:
        jct = f"{lacking}/{point.repetitions} did not end"
    most, killed = f"{point.most_pods:.3g}", f"{point.oom_killed:.3g}"
    return f"  {point.value or '-':{width}}{jct:>23}{_shown(point.pod_completion_s):>23}{most:>7}{killed:>6}"


def _shown(one: Estimate | None) -> str:
    if one is None:
        return "-"
    interval = "" if one.low == one.high else f" [{seconds(one.low)}, {seconds(one.high)}]"
    return f"{seconds(one.mean)}{interval}"
