"""The A/A check: a scheduler is compared with itself, so that whatever differs is noise.

Whoever compares two schedulers should know what the comparison says of two that are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from testbed.comparison.gate import LEVEL
from testbed.comparison.measured import measured
from testbed.comparison.runs import Pairing, Row, rows_of
from testbed.comparison.verdicts import MARGIN, Verdict
from testbed.measurement.metrics import Figure
from testbed.results.schema import AA_CHECK, Repetition

FIGURES = (Figure("job_completion_time", "value"), Figure("pod_completion_time", "mean"))
"""What is compared: the times of jobs, and of pods on average."""


def aa_rows(repetitions: Iterable[Repetition]) -> list[Row]:
    """Compare what was measured twice, under the same scheduler and settings; empty if nothing was.

    A scheduler that is called different from itself by chance is as improbable as a gate that fails by chance.
    """
    repetitions = list(repetitions)
    again = [_as_first(one) for one in repetitions if one.of_aa_check]
    first = measured(repetitions, FIGURES)
    pairs = [
        (theirs, ours)
        for ours in measured(again, FIGURES)
        for theirs in first
        if (theirs.scenario, theirs.scheduler, theirs.settings) == (ours.scenario, ours.scheduler, ours.settings)
    ]
    return rows_of(Pairing(pairs, [], [], []), FIGURES, level=LEVEL)


def aa_verdict(rows: Sequence[Row]) -> Verdict:
    """Return the verdict on the whole check.

    ``ok``: noise changes no figure by more than the margin; ``regressed``: a scheduler differs from itself, in either
    direction, by more than chance explains; ``inconclusive``: else.
    """
    verdicts = {row.verdict for row in rows}
    if verdicts & {"regressed", "improved"}:
        return "regressed"
    return "ok" if verdicts == {"ok"} else "inconclusive"


def noise(row: Row) -> float:
    """Return the change that noise alone may make of a figure, as a share: the far end of the 95 % interval.

    Infinite if there is no interval; NaN of what is compared by no ratio.
    """
    if row.compared is None or not row.compared.difference.relative:
        return math.nan
    one = row.compared.difference
    return max(one.high, 1.0 / one.low) - 1.0 if one.enough and one.low > 0 else math.inf


def repetitions_for_ok(row: Row) -> int | None:
    """Return with how many repetitions the check would probably be ok, about; None if that is not known.

    The interval and the effect that chance leaves must be within the margin together, so half the interval takes half
    of it.
    """
    if row.compared is None or not math.isfinite(noise(row)):
        return None
    one = row.compared.difference
    half = math.log(one.high / one.effect)
    return math.ceil(max(one.n) * (2.0 * half / math.log1p(MARGIN)) ** 2)


def _as_first(one: Repetition) -> Repetition:
    settings = {name: value for name, value in one.settings.items() if name != AA_CHECK}
    return msgspec.structs.replace(one, settings=settings)
