"""The verdicts as Markdown, for the summary of a job in GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
_JOB = ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB")
"""Variables that tell jobs apart; every step of a job has another `VARIABLE`."""


def verdict_markdown(readings: Sequence[Reading], reference: str | None = None) -> str:
    """Return a table of all jobs and schedulers with their verdicts, run by run; what a gate has said comes first.

    Parameters
    ----------
    readings : sequence of Reading
    reference : str, optional
        The scheduler with which the others of a run are compared.
    """
    lines = []
    for reading in readings:
        lines += [f"### carico-testbed: {_escaped(reading.name)}", ""]
        for gate in reading.gates:
            said = f"{gate.test}: {gate.line}" if gate.test else gate.line
            lines += [f"**{_escaped(said)}**", "", *(f"- {_escaped(one)}" for one in gate.failures), ""]
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


def add_to_step_summary(
    readings: Sequence[Reading], environment: Mapping[str, str], reference: str | None = None
) -> None:
    """Add the verdicts to the job's summary, if this is a job of GitHub Actions: those of a run once in a job.

    A session of pytest adds its own, and so does `carico-testbed report`, perhaps in another step of the job.

    Raises
    ------
    ResultsError
        If they cannot be written.
    """
    if not (name := environment.get(VARIABLE)):
        return
    job = " ".join(environment.get(part, "") for part in _JOB).strip() or name
    new = [one for one in readings if one.folder is None or _read(one.folder.step_summary) != job]
    if not new:
        return
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(verdict_markdown(new, reference) + "\n")
    except OSError as error:
        raise ResultsError(f"cannot add the verdicts to ${VARIABLE}, {name}: {error.strerror}") from error
    for folder in [one.folder for one in new if one.folder is not None]:
        with suppress(OSError):  # a folder of another user's: then the verdicts are there twice
            folder.step_summary.write_text(job, encoding="utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)
