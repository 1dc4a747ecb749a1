"""Which of a paper's statements hold, as text: the figures of a test, counts by variant, and a line for every claim."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from testbed.report.numbers import WIDTH, counted, figure
from testbed.results.outcomes import VERDICTS, Outcome, Row, Verdict

_WORDS: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "depends on the seed": ("depends on the seed", "depend on the seed"),
    "not reproduced": ("NOT REPRODUCED", "NOT REPRODUCED"),
    "not measured": ("NOT MEASURED", "NOT MEASURED"),
    "failed": ("failed", "failed"),
}
_OF_TESTS = _WORDS | {
    "holds": ("passed", "passed"),
    "not reproduced": ("failed as expected", "failed as expected"),
}
"""The words of sessions without claims, whose tests reproduce nothing."""


_COLUMNS = {"paper": 10, "ours": 10, "ratio": 7, "extremes": 13}
"""The columns of figures, each with its least width."""
_NAMES = 20
"""The least width of the column of quantities."""


def paper_table(rows: Iterable[Row]) -> list[str]:
    """Return a table of measured figures beside the paper's: means over the seeds, and their extremes.

    Long figures take their room from the names of the quantities, which go on in the next line.
    """
    table = [("quantity", tuple(_COLUMNS), ""), *((row.what, _figures(row), row.note) for row in rows)]
    longest = [max(map(len, column)) for column in zip(*(cells for _, cells, _ in table), strict=True)]
    widths = [max(least, 2 + most) for least, most in zip(_COLUMNS.values(), longest, strict=True)]
    names = max(_NAMES, WIDTH - 4 - sum(widths))
    lines = []
    for what, cells, note in table:
        *head, last = textwrap.wrap(what, names) or [""]
        lines += [f"    {part}" for part in head]
        columns = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"    {last:{names}}{columns}".rstrip())
        lines += textwrap.wrap(note, WIDTH, initial_indent="      ", subsequent_indent="      ")
    return lines


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
        return [_counted("test", [one.verdict for one in others if one.verdict], _OF_TESTS)]
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


def heading(verdict: Verdict, outcomes: Sequence[Outcome]) -> str:
    """Return the heading of a session's tests with a verdict; of tests that state no claim in plain words.

    Examples
    --------
    >>> heading("not reproduced", [Outcome("test_one", verdict="not reproduced")])
    'FAILED AS EXPECTED'
    """
    words = _WORDS if any(one.statement.kind == "claim" for one in outcomes) else _OF_TESTS
    return words[verdict][0].upper()


def claims_table(by_provider: Mapping[str, Iterable[Outcome]]) -> list[str]:
    """Return a Markdown table: a line for every case of a claim, with its verdicts and figures on each provider.

    A verdict is the number of seeds on which each variant holds. The figures are from a test's last row that has a
    figure of the paper, or else from its last row.
    """
    several = len(by_provider) > 1
    judged = [f"holds, {name}" for name in by_provider] if several else ["holds on seeds"]
    measured = [f"ours, {name}" for name in by_provider] if several else ["ours"]
    columns = ["paper", "claim", *judged, "paper", *measured]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    found = {name: _by_case(outcomes) for name, outcomes in by_provider.items()}
    for case in dict.fromkeys(case for cases in found.values() for case in cases):
        source, text, which = case
        outcomes = [cases.get(case, {}) for cases in found.values()]
        rows = [headline(one) for of_provider in outcomes for one in of_provider.values()]
        what = next((row.what for row in rows if row), "")
        statement = f"{text} ({which})" if which else text
        cells = [
            source,
            f"{statement}; {what}" if what else statement,
            *("; ".join(map(_held, of_provider.values())) for of_provider in outcomes),
            next((figure(row.thesis, row.unit) for row in rows if row and row.thesis is not None), ""),
            *("; ".join(filter(None, map(_figure, of_provider.values()))) for of_provider in outcomes),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def worst(outcomes: Iterable[Outcome]) -> Verdict:
    """Return the worst verdict of several outcomes."""
    return max((one.verdict for one in outcomes if one.verdict), key=VERDICTS.index)


def _key(outcome: Outcome) -> tuple[str, str]:
    return outcome.statement.source, outcome.statement.text


def _by_case(outcomes: Iterable[Outcome]) -> dict[tuple[str, str, str], dict[str, Outcome]]:
    """Return the outcomes of claims: by source, text and case, and within a case by column."""
    found: dict[tuple[str, str, str], dict[str, Outcome]] = {}
    for one in outcomes:
        if one.statement.kind == "claim":
            found.setdefault((*_key(one), one.statement.case), {})[one.statement.column] = one
    return {case: dict(sorted(columns.items())) for case, columns in found.items()}


def _held(outcome: Outcome) -> str:
    verdict = outcome.share or _WORDS[worst([outcome])][0]
    return f"{outcome.statement.column} {verdict}".strip()


def _figure(outcome: Outcome) -> str:
    row = headline(outcome)
    return figure(row.ours, row.unit) if row else ""


def headline(outcome: Outcome) -> Row | None:
    """Return the row that stands for a test: the last one with a figure of the paper, or else the last one."""
    compared = [row for row in outcome.rows if row.thesis is not None]
    return next(reversed(compared or outcome.rows), None)


def _counted(noun: str, verdicts: Sequence[Verdict], words: Mapping[Verdict, tuple[str, str]] = _WORDS) -> str:
    return f"{counted(len(verdicts), noun)}: {_verdicts(verdicts, words)}"


def _verdicts(verdicts: Iterable[Verdict], words: Mapping[Verdict, tuple[str, str]] = _WORDS) -> str:
    count = Counter(verdicts)
    return ", ".join(f"{count[one]} {words[one][count[one] != 1]}" for one in VERDICTS if count[one])


def _figures(row: Row) -> tuple[str, ...]:
    paper = "" if row.thesis is None else figure(row.thesis, row.unit)
    ratio = "" if row.thesis in (None, 0) else f"{row.ours / row.thesis:.2f}"
    return paper, figure(row.ours, row.unit), ratio, _extremes(row)


def _extremes(row: Row) -> str:
    low, high = min(row.values), max(row.values)
    return "" if low == high else f"{figure(low)}-{figure(high)}"
