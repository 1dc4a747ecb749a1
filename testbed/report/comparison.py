"""The comparison of two runs as plain text, 80 columns wide."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from testbed.comparison import LEAST
from testbed.comparison.difference import Difference
from testbed.comparison.gate import Gate, Judgement
from testbed.comparison.power import POWER, Found, noisiest
from testbed.comparison.runs import Compared, Pairing, Row
from testbed.comparison.verdicts import MARGIN
from testbed.measurement.metrics import METRICS
from testbed.report.numbers import WIDTH, comparisons, counted, figure, titled
from testbed.results.run import SchedulerUsed

TOLD = 5
"""The most figures that are told one by one of which a gate could not decide anything."""


def comparison_table(pairing: Pairing, rows: Sequence[Row]) -> list[str]:
    """Return two lines for every figure, below a line for every scenario and scheduler."""
    compared = [row.compared for row in rows if row.compared is not None]
    header = f"    {'reference':>12}{'candidate':>12}{'effect [interval]':>30}{'verdict':>14}"
    lines = [header] if compared else []
    for title, mine in groupby(rows, lambda row: row.title):
        lines += titled(title)
        for row in mine:
            lines += row_lines(row)
    for what, titles in (("reference", pairing.only_reference), ("candidate", pairing.only_candidate)):
        for title in titles:
            lines += titled(f"only in the {what}: {title}")
    return [*lines, *textwrap.wrap(_note(compared), WIDTH)] if compared else lines


def _note(rows: Sequence[Compared]) -> str:
    """Say what a table's numbers and verdicts mean."""
    undirected = [one.figure.metric for one in rows if METRICS[one.figure.metric].less_is_better is None]
    said = (
        "Means over the repetitions; the effect is candidate / reference, or (+, -) their difference, with its 95 % "
        f"interval. ok means within {100 * MARGIN:g} %; inconclusive, that the repetitions cannot "
        f"tell, as fewer than {LEAST} never can."
    )
    if judged := len(rows) - len(undirected):
        said += f" Verdicts are corrected for {comparisons(judged)} of this table (Holm, 5 %)."
    if undirected:
        names = " and ".join(dict.fromkeys(undirected))
        said += f" Neither direction of {names} is better, so what differs there is neither regressed nor improved."
    return said


def changed_schedulers(reference: Sequence[SchedulerUsed], candidate: Sequence[SchedulerUsed]) -> list[str]:
    """Return a note for every scheduler that is not the same program in both runs.

    Examples
    --------
    >>> before, after = (SchedulerUsed("own:Fit", "own:Fit", version, "") for version in ("1.0", "1.1"))
    >>> changed_schedulers([before], [after])
    ['own:Fit is not the same in both: version 1.0, 1.1']
    """
    before = {one.text: one for one in reference}
    notes = []
    for ours in candidate:
        theirs = before.get(ours.text)
        if theirs is None or (theirs.version, theirs.source_sha256) == (ours.version, ours.source_sha256):
            continue
        what = f"version {theirs.version}, {ours.version}" if theirs.version != ours.version else "its source differs"
        notes.append(f"{ours.text} is not the same in both: {what}")
    return notes


def row_lines(row: Row) -> list[str]:
    """Return a figure on two lines: its name, and both values with the effect and the verdict."""
    found = row.compared
    if found is None:
        return textwrap.wrap(f"incomparable: {row.reason}", WIDTH, initial_indent="    ", subsequent_indent="      ")
    unit = METRICS[found.figure.metric].unit
    unit = unit if unit == "s" else ""
    values = f"{figure(found.reference, unit):>12}{figure(found.candidate, unit):>12}"
    return [f"    {found.figure}", f"    {values}{_effect_of(found):>30}{row.verdict:>14}".rstrip()]


def _effect_of(found: Compared) -> str:
    """Return an effect with its interval."""
    one = found.difference
    if not 0.0 < one.effect < math.inf and one.relative:
        return f"{found.lacking} not measured" if found.lacking else ""
    effect = f"{one.effect:.3f}" if one.relative else f"{one.effect:+.3g}"
    if one.enough and one.low != one.high:
        effect += f" [{one.low:.3f}, {one.high:.3f}]" if one.relative else f" [{one.low:+.3g}, {one.high:+.3g}]"
    return effect


def failures(gate: Gate) -> list[str]:
    """Return a sentence for every reason why a gate has not passed; none if it has."""
    return regressions(gate) + gate.problems


def regressions(gate: Gate) -> list[str]:
    """Return a sentence for every figure that is worse than a gate allows."""
    return [_regression(one) for one in gate.judgements if one.outcome == "regressed"]


def gate_notes(gate: Gate) -> list[str]:
    """Return what a gate could not decide, and from which change on it would have found one."""
    # Of figures with too few repetitions the gate's problems tell.
    open_ones = [one for one in gate.judgements if one.outcome == "inconclusive" and one.found.difference.enough]
    notes = [f"inconclusive: {_where(one)} {_how_changed(one)}" for one in open_ones[:TOLD]]
    if (more := len(open_ones) - TOLD) > 0:
        notes.append(f"{counted(more, 'more figure')} {'is' if more == 1 else 'are'} inconclusive")
    return [*notes, *power_note(noisiest(gate), "this gate finds")]


def power_note(found: Found | None, what: str) -> list[str]:
    """Return from which change on a gate finds the noisiest figure worse; nothing if that is not known."""
    if found is None:
        return []
    return [
        f"{what} {100 * found.change:+.1f} % or worse in {100 * POWER:g} % of sessions, in its noisiest figure "
        f"({found.title}: {found.figure}); more repetitions find smaller changes"
    ]


def _regression(one: Judgement) -> str:
    found = one.found
    where = _where(one)
    if found.lacking:
        return f"{where} was not measured in {counted(found.lacking, 'repetition')}, as where a job does not complete"
    unit = METRICS[found.figure.metric].unit
    before, after = (figure(value, unit) for value in (found.reference, found.candidate))
    if found.against:
        return f"{where} has a mean of {after}, and of {before} under {found.against} {_how_changed(one)}"
    return f"{where} went from a mean of {before} to {after} {_how_changed(one)}"


def _where(one: Judgement) -> str:
    return f"{one.found.title}: {one.found.figure}"


def _how_changed(one: Judgement) -> str:
    found = one.found
    unit = METRICS[found.figure.metric].unit
    amount_of = None if one.condition.relative else found.reference
    allowed = one.condition.allowed if one.condition.relative else f"{one.condition.allowed} {unit}".rstrip()
    return f"({change(found.difference, unit, amount_of)}, n = {found.difference.repetitions}; allowed {allowed})"


def change(found: Difference, unit: str, reference: float | None = None) -> str:
    """Return how much a figure has changed, with the 95 % interval if there is one.

    Parameters
    ----------
    found : Difference
    unit : str
        The figure's.
    reference : float, optional
        The reference's mean, with which a ratio is told as an amount; by default it is told in per cent.
    """
    values = [found.effect, *((found.low, found.high) if found.enough and found.low < found.high else ())]
    if found.relative and reference is None:
        told, unit = [f"{100 * (value - 1):+.1f}" for value in values], "%"
    else:
        amounts = [(value - 1) * reference for value in values] if found.relative and reference else values
        told = [f"{value:+.3g}" for value in amounts]
    interval = f" [{', '.join(told[1:])}]" if told[1:] else ""
    return f"{told[0]}{interval} {unit}".rstrip()


def gate_line(gate: Gate) -> str:
    """Return what a gate has found, in one line."""
    judged_by = "" if gate.by_baseline else ", judged by the reference of each table"
    counts = Counter(one.outcome for one in gate.judgements)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "nothing was judged"
    if gate.not_measured:
        told += f"; not measured, but in the baseline: {len(gate.not_measured)}"
    if gate.not_in_baseline:
        told += f"; measured, but not in the baseline: {len(gate.not_in_baseline)}"
    return f"gate: {'passed' if gate.passed else 'FAILED'} ({told}){judged_by}"
