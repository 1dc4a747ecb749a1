"""The verdicts as Markdown, for the summary of a job in GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from testbed.comparison.aa import aa_rows
from testbed.errors import ResultsError
from testbed.report.aa import aa_sentence
from testbed.report.groups import by_scheduler
from testbed.report.judgements import judged_rows
from testbed.report.tables import effect_of, with_interval
from testbed.results.reading import Reading

VARIABLE = "GITHUB_STEP_SUMMARY"


def verdict_markdown(readings: Sequence[Reading], reference: str | None = None) -> str:
    """Return a table of all jobs and schedulers with their verdicts, run by run."""
    lines = []
    for reading in readings:
        lines += [f"### carico-testbed: {_escaped(reading.name)}", ""]
        rows = judged_rows(by_scheduler(reading.repetitions), reference)
        for title, mine in groupby(rows, lambda row: row.title):
            lines += [f"**{_escaped(title)}**", "", "| scheduler | n | JCT s | PCT s | JCT / reference | verdict |"]
            lines.append("|---|--:|--:|--:|--:|---|")
            for row in mine:
                jct = f"{row.lacking} did not complete" if row.lacking else with_interval(row.jct_s, row.interval_s)
                pct = with_interval(row.pct_s, row.pct_interval_s)
                effect = (
                    "reference" if row.is_reference else "" if row.difference is None else effect_of(row.difference)
                )
                cells = (_escaped(row.scheduler), str(row.n), jct, pct, effect, row.verdict or "")
                lines.append(f"| {' | '.join(cells)} |")
            lines.append("")
        if checked := aa_rows(reading.repetitions):
            lines += [f"{_escaped(aa_sentence(checked))}.", ""]
        lines += [f"- {_escaped(problem)}" for problem in reading.problems]
    return "\n".join(lines).rstrip() + "\n"


def add_to_step_summary(text: str, environment: Mapping[str, str]) -> None:
    """Add Markdown to the job's summary, if this is a job of GitHub Actions.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    if not (name := environment.get(VARIABLE)):
        return
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ResultsError(f"cannot add the verdicts to ${VARIABLE}, {name}: {error.strerror}") from error


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)
