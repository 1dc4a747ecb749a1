"""Which of a paper's statements hold, as text: the figures of a test, counts by variant, and a line for every claim."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from testbed.report.numbers import WIDTH, counted, figure
from testbed.results.outcomes import VERDICTS, Outcome, Row, Verdict

_WORDS: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "depends on the seed": ("depends on the seed", "depend on the seed"),
    "not reproduced": ("NOT REPRODUCED", "NOT REPRODUCED"),
    "not measured": ("NOT MEASURED", "NOT MEASURED"),
    "failed": ("failed", "failed"),
}


def paper_table(rows: Iterable[Row]) -> list[str]:
    """Return a table of measured figures beside the paper's: means over the seeds, and their extremes."""
    lines = [f"    {'quantity':36}{'paper':>10}{'ours':>10}{'ratio':>7}{'extremes':>13}"]
    for row in rows:
        ratio = "" if row.thesis in (None, 0) else f"{row.ours / row.thesis:.2f}"
        *head, last = textwrap.wrap(row.what, 36) or [""]
        lines += [f"    {part}" for part in head]
        paper = "" if row.thesis is None else figure(row.thesis, row.unit)
        lines.append(f"    {last:36}{paper:>10}{figure(row.ours, row.unit):>10}{ratio:>7}{_extremes(row):>13}")
        lines += textwrap.wrap(row.note, WIDTH, initial_indent="      ", subsequent_indent="      ")
    return [line.rstrip() for line in lines]


def counts(outcomes: Sequence[Outcome]) -> list[str]:
    """Return how many statements of each kind hold; a claim counts once for each variant, by its worst case.

    Examples
    --------
    >>> from testbed.results.outcomes import Statement
    >>> def claim(text, column, verdict):
    ...     return Outcome(text, Statement("claim", "§5", text, column), verdict)
    >>> for line in counts([claim("a", "x", "holds"), claim("a", "y", "not reproduced"), claim("b", "x", "holds")]):
    ...     print(line)
    2 claims
      x: 2 hold
      y: 1 NOT REPRODUCED
    """
    claims = [one for one in outcomes if one.statement.kind == "claim"]
    others = [one for one in outcomes if one.statement.kind != "claim"]
    if not claims:
        return [_counted("test", [one.verdict for one in others if one.verdict])]
    lines = [counted(len({_key(one) for one in claims}), "claim")]
    for column in sorted({one.statement.column for one in claims}):
        by_claim: dict[tuple[str, str], list[Outcome]] = {}
        for one in claims:
            if one.statement.column == column:
                by_claim.setdefault(_key(one), []).append(one)
        lines.append(f"  {column or 'of no variant'}: {_verdicts([worst(cases) for cases in by_claim.values()])}")
    for kind in ("calibration", "expectation"):
        verdicts = [one.verdict for one in others if one.statement.kind == kind and one.verdict]
        if verdicts:
            lines.append(_counted(kind, verdicts))
    return lines


def claims_table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a Markdown table: a line for every case of a claim, with the number of seeds on which each variant holds.

    The figures are from a test's last row that has a figure of the paper, or else from its last row.
    """
    claims = [one for one in outcomes if one.statement.kind == "claim"]
    columns = sorted({one.statement.column for one in claims if one.statement.column})
    lines = [
        f"| paper | claim | {' | '.join(['holds on seeds', 'paper', 'ours'])} |",
        "|---|---|---|---|---|",
    ]
    by_case: dict[tuple[str, str, str], dict[str, Outcome]] = {}
    for one in claims:
        by_case.setdefault((*_key(one), one.statement.case), {})[one.statement.column] = one
    for (source, text, case), found in by_case.items():
        shown = [column for column in ("", *columns) if column in found]
        judged = "; ".join(f"{column + ' ' if column else ''}{_held(found[column])}" for column in shown)
        rows = {column: _headline(found[column]) for column in shown}
        paper = next((figure(row.thesis, row.unit) for row in rows.values() if row and row.thesis is not None), "")
        ours = "; ".join(figure(row.ours, row.unit) for row in rows.values() if row)
        what = next((row.what for row in rows.values() if row), "")
        statement = f"{text} ({case})" if case else text
        lines.append(f"| {source} | {statement}; {what} | {judged} | {paper} | {ours} |")
    return lines


def worst(outcomes: Iterable[Outcome]) -> Verdict:
    """Return the worst verdict of several outcomes."""
    return max((one.verdict for one in outcomes if one.verdict), key=VERDICTS.index)


def _key(outcome: Outcome) -> tuple[str, str]:
    return outcome.statement.source, outcome.statement.text


def _held(outcome: Outcome) -> str:
    return outcome.share or str(outcome.verdict)


def _headline(outcome: Outcome) -> Row | None:
    compared = [row for row in outcome.rows if row.thesis is not None]
    return next(reversed(compared or outcome.rows), None)


def _counted(noun: str, verdicts: Sequence[Verdict]) -> str:
    return f"{counted(len(verdicts), noun)}: {_verdicts(verdicts)}"


def _verdicts(verdicts: Iterable[Verdict]) -> str:
    count = Counter(verdicts)
    return ", ".join(f"{count[one]} {_WORDS[one][count[one] != 1]}" for one in VERDICTS if count[one])


def _extremes(row: Row) -> str:
    low, high = min(row.values), max(row.values)
    return "" if low == high else f"{figure(low)}-{figure(high)}"
