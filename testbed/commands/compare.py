"""``carico-testbed compare``: what changed from one run to another, with verdicts that can be trusted."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.commands.recorded_run import tell
from testbed.comparison.runs import compare_runs
from testbed.errors import UsageError
from testbed.measurement.metrics import DEFAULT, METRICS, chosen
from testbed.report.comparison import comparison_table
from testbed.results.runs import run_named
from testbed.results.schema import Repetition
from testbed.results.store import read_results


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    compare = commands.add_parser(
        "compare",
        help="show what changed from one run to another",
        description="Compares what two runs measured, scenario by scenario and scheduler by scheduler: the size of "
        "each difference with its 95 % interval, and a verdict (ok, regressed, improved, inconclusive, incomparable) "
        "that is corrected for the number of comparisons.",
        epilog="metrics: " + "; ".join(f"{metric.name}: {metric.meaning}" for metric in METRICS.values()),
    )
    for name, what in (("reference", "compared with"), ("candidate", "judged")):
        compare.add_argument(
            name,
            metavar=name.upper(),
            help=f"what is {what}: a results file, a run's name or folder, or 'latest'",
        )
    compare.add_argument(
        "--metric",
        metavar="METRIC[:STATISTIC]",
        action="append",
        help="compare only this metric (repeatable), for example pod_completion_time:p90 (default: all that have a "
        "better direction)",
    )
    compare.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    wanted = [figure for text in options.metric for figure in chosen(text)] if options.metric else DEFAULT
    reference, candidate = (_repetitions(name) for name in (options.reference, options.candidate))
    found = compare_runs(reference, candidate, wanted)
    print("\n".join(comparison_table(found)))
    if not any(row.figure is not None for row in found.rows):
        tell(
            "nothing could be compared: the runs have no scenario, scheduler and settings in common with these metrics"
        )
        return 1
    return 0


def _repetitions(name: str) -> list[Repetition]:
    """Return the repetitions of a results file or a run.

    Raises
    ------
    UsageError
        If there is none of that name, or it has no repetitions.
    """
    file = Path(name)
    if not file.is_file():
        run = run_named(name, Path.cwd())
        if not run.result.exists():
            raise UsageError(
                f"run {run.id} has no results: 'carico-testbed recover {run.id}' makes them, if it was killed"
            )
        file = run.result
    repetitions = read_results(file).repetitions
    if not repetitions:
        raise UsageError(f"{file} has no repetitions")
    return repetitions
