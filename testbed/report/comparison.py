"""The comparison of two runs as plain text, 80 columns wide."""

from __future__ import annotations

import math
import textwrap
from itertools import groupby

from testbed.comparison import LEAST
from testbed.comparison.runs import Row, RunComparison
from testbed.comparison.verdicts import MARGIN
from testbed.measurement.metrics import METRICS
from testbed.report.numbers import WIDTH, counted, figure


def comparison_table(found: RunComparison) -> list[str]:
    """Return a line for every figure, below a line for every scenario and scheduler."""
    lines = [f"    {'reference':>12}{'candidate':>12}{'effect [interval]':>30}{'verdict':>14}"]
    compared = [row for row in found.rows if row.figure is not None]
    for title, rows in groupby(found.rows, lambda row: row.group.title):
        lines += textwrap.wrap(title, WIDTH, subsequent_indent="  ")
        for row in rows:
            lines += _row(row)
    for what, titles in (("reference", found.only_reference), ("candidate", found.only_candidate)):
        for title in titles:
            lines += textwrap.wrap(f"only in the {what}: {title}", WIDTH, subsequent_indent="  ")
    note = (
        f"Means over the repetitions; the effect is candidate / reference, or (+, -) their difference, with its 95 % "
        f"interval. Verdicts are corrected for all {counted(len(compared), 'comparison')} of this table (Holm, "
        f"5 %); ok means within {100 * MARGIN:g} %, and below {LEAST} repetitions all is inconclusive."
    )
    return [*lines, *textwrap.wrap(note, WIDTH)] if compared else lines


def _row(row: Row) -> list[str]:
    if row.figure is None or row.difference is None:
        return textwrap.wrap(f"incomparable: {row.reason}", WIDTH, initial_indent="    ", subsequent_indent="      ")
    unit, one = METRICS[row.figure.metric].unit, row.difference
    unit = unit if unit == "s" else ""
    effect = ""
    if not math.isnan(one.effect):
        effect = f"{one.effect:.3f}" if one.relative else f"{one.effect:+.3g}"
    if one.enough and one.low != one.high:
        effect += f" [{one.low:.3f}, {one.high:.3f}]" if one.relative else f" [{one.low:+.3g}, {one.high:+.3g}]"
    values = f"{figure(row.reference, unit):>12}{figure(row.candidate, unit):>12}"
    return [f"    {row.figure}", f"    {values}{effect:>30}{row.verdict:>14}".rstrip()]
