"""``carico-testbed report``: one page about one or several runs, to look at and to pass on."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from carico.commands.output import of_output, print_json, wants_json
from testbed.commands import HELP
from testbed.commands.recorded_run import tell
from testbed.comparison.baseline import is_baseline
from testbed.errors import UsageError, suggested
from testbed.measurement.metrics import recorded, registered
from testbed.measurement.own import installed, own_metrics
from testbed.report.as_json import verdicts_as_json
from testbed.report.markdown import add_to_step_summary
from testbed.report.page.page import page, write_page
from testbed.requirements import check_installed
from testbed.results.reading import Reading, read_all
from testbed.results.runs import LATEST
from testbed.results.store import check_writable

DEFAULT = Path("report.html")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    report = commands.add_parser(
        "report",
        help=HELP["report"],
        description="Makes one HTML page of one or several runs: verdicts first, then the completion times, nodes and "
        "latencies of every scenario as figures with their data, and the command that measures each again. The page "
        "needs nothing else and loads nothing. If several runs are given, the others are compared with the first. In "
        "GitHub Actions the verdicts are also added to the job's summary ($GITHUB_STEP_SUMMARY).",
    )
    report.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        default=[LATEST],
        help="a run's name or folder, a results file, or 'latest' (default: latest)",
    )
    report.add_argument("--html", metavar="FILE", type=Path, default=DEFAULT, help=f"the page (default: {DEFAULT})")
    report.add_argument(
        "--reference",
        metavar="SPEC",
        help="the scheduler with which the others are compared (default: the first of each scenario)",
    )
    of_output(report, "the verdicts, and what could not be read")
    report.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    check_installed("report")
    check_writable(options.html, "the report")
    for name in options.runs:
        _check_no_baseline(name)
    readings = read_all(options.runs, Path.cwd())
    schedulers = {one.scheduler: None for reading in readings for one in reading.repetitions}
    if options.reference is not None and options.reference not in schedulers:
        meant = suggested(options.reference, schedulers, f"those that were: {', '.join(schedulers)}")
        raise UsageError(f"--reference {options.reference}: no such scheduler was run{meant}")
    for problem in [problem for reading in readings for problem in reading.problems]:
        tell(f"left out: {problem}")
    own = own_metrics(one for reading in readings for one in reading.repetitions)
    with registered(one.metric for one in installed()), recorded(own):
        return _write(options, readings)


def _write(options: argparse.Namespace, readings: Sequence[Reading]) -> int:
    write_page(options.html, page(readings, options.reference))
    if wants_json(options):
        print_json({"report": str(options.html), **verdicts_as_json(readings, options.reference)})
    else:
        print(f"report: {options.html}")
    add_to_step_summary(readings, os.environ, options.reference)
    return 0


def _check_no_baseline(name: str) -> None:
    """Raise UsageError if a file is a baseline, which `compare` takes."""
    if Path(name).is_file() and is_baseline(Path(name)):
        raise UsageError(
            f"{name} is a baseline: it has no repetitions, which a report shows; name runs, their folders or results "
            f"files. What changed since the baseline: carico-testbed compare {shlex.quote(name)} latest"
        )
