"""What the A/A check says, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from testbed.comparison.aa import aa_verdict, noise, repetitions_for_ok
from testbed.comparison.runs import Row
from testbed.comparison.verdicts import MARGIN
from testbed.report.comparison import row_lines
from testbed.report.numbers import titled

HEADING = "A/A check: schedulers against themselves"


def aa_table(rows: Sequence[Row]) -> list[str]:
    """Return both values of every figure, 80 columns wide; see `aa_sentence` for what they say together."""
    lines = [HEADING, f"    {'once':>12}{'again':>12}{'again / once [interval]':>30}{'verdict':>14}"]
    for title, mine in groupby(rows, lambda row: row.title):
        lines += titled(title)
        lines += [line for row in mine for line in row_lines(row)]
    return lines


def aa_sentence(rows: Sequence[Row]) -> str:
    """Return what the whole check says, and what to do about it."""
    if not rows:
        return "A/A check: NOT MEASURED: no experiment was run"
    verdict = aa_verdict(rows)
    if verdict == "ok":
        return f"A/A check: ok: noise alone changes no figure by more than {100 * MARGIN:g} %"
    if verdict == "regressed":
        named = "; ".join(_named(row) for row in rows if row.verdict in ("regressed", "improved"))
        return (
            f"A/A check: FAILED: a scheduler differs from itself: {named}. What this session compares is not to be "
            f"trusted: something else changes the figures while it runs"
        )
    worst = max(rows, key=lambda row: -1.0 if math.isnan(noise(row)) else noise(row))
    if worst.compared is None or not math.isfinite(noise(worst)):
        return "A/A check: inconclusive: there are too few repetitions, or some did not complete"
    enough = repetitions_for_ok(worst)
    more = f"; with about {enough} repetitions it is within {100 * MARGIN:g} %" if enough else ""
    return (
        f"A/A check: inconclusive: noise alone may change {worst.compared.figure} by up to {100 * noise(worst):.1f} % "
        f"(n = {worst.compared.difference.repetitions}){more}"
    )


def _named(row: Row) -> str:
    found = row.compared
    return row.title if found is None else f"{row.title}: {found.figure} {found.difference}"
