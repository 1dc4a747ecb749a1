"""A list of runs as plain text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import datetime

from testbed.errors import ResultsError
from testbed.experiment.progress import minutes
from testbed.results.run import Run
from testbed.results.runs import RunFolder

WIDTH = 160


def runs_table(runs: Iterable[RunFolder]) -> list[str]:
    """Return a line for every run; if a run cannot be read, its line says why."""
    lines = [f"{'run':23}  {'state':11}  {'time':>7}  {'repetitions':>11}  {'to recover':10}  command"]
    for run in runs:
        try:
            lines.append(_line(run, run.read()))
        except ResultsError as error:
            lines.append(f"{run.id:23}  {error}")
    return lines if len(lines) > 1 else ["no runs yet: pytest -m cluster, or carico-testbed run SCENARIO"]


def _line(folder: RunFolder, run: Run) -> str:
    left = "yes" if folder.log.path.exists() and run.state != "running" else "-"
    command = shlex.join(run.command)
    line = f"{run.id:23}  {run.state:11}  {_duration(run):>7}  {run.finished_repetitions:>11}  {left:10}  {command}"
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def _duration(run: Run) -> str:
    if run.ended is None:
        return "-"
    return minutes((datetime.fromisoformat(run.ended) - datetime.fromisoformat(run.started)).total_seconds())
