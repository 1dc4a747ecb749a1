"""A list of runs as plain text."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable
from datetime import datetime

from testbed.errors import ResultsError
from testbed.experiment.progress import minutes
from testbed.report.numbers import WIDTH
from testbed.results.run import Run
from testbed.results.runs import RunFolder


def runs_table(runs: Iterable[RunFolder]) -> list[str]:
    """Return two lines for every run; if a run cannot be read, the second one says why."""
    lines = [f"{'run':23}  {'state':11}  {'time':>7}  {'repetitions':>11}  {'to recover':>10}"]
    for run in runs:
        try:
            lines += _entry(run, run.read())
        except ResultsError as error:
            lines += [run.id, *textwrap.wrap(str(error), WIDTH, initial_indent="    ", subsequent_indent="    ")]
    return lines if len(lines) > 1 else ["no runs yet: pytest -m cluster, or carico-testbed run SCENARIO"]


def _entry(folder: RunFolder, run: Run) -> list[str]:
    left = "yes" if folder.to_recover and run.state != "running" else "-"
    command = f"    {shlex.join(run.command)}"
    return [
        f"{run.id:23}  {run.state:11}  {_duration(run):>7}  {run.finished_repetitions:>11}  {left:>10}",
        command if len(command) <= WIDTH else f"{command[: WIDTH - 1]}…",
    ]


def _duration(run: Run) -> str:
    if run.ended is None:
        return "-"
    return minutes((datetime.fromisoformat(run.ended) - datetime.fromisoformat(run.started)).total_seconds())
