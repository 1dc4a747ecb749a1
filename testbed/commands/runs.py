"""``carico-testbed runs`` and ``recover``: list earlier runs, and recover their finished repetitions."""

from __future__ import annotations

import argparse
from pathlib import Path

from carico.commands.output import of_output, print_json, wants_json
from testbed import arguments
from testbed.commands import HELP
from testbed.commands.recorded_run import tell
from testbed.errors import UnusableFile, UsageError
from testbed.report.as_json import runs_as_json
from testbed.report.numbers import counted
from testbed.report.runs import runs_table
from testbed.results import runs_folder
from testbed.results.reading import read_repetitions
from testbed.results.runs import all_runs, remove_all_but, run_named
from testbed.results.store import check_writable, merged, write_results


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    runs = commands.add_parser(
        "runs",
        help=HELP["runs"],
        description="Shows the runs in .carico/runs, which are sessions of pytest and calls of 'carico-testbed run', "
        "'sweep' and 'validate': when they were started, how they ended, and whether finished repetitions can be "
        "recovered.",
    )
    runs.add_argument(
        "--remove-all-but",
        metavar="N",
        type=arguments.count,
        help="remove all but the newest N runs, with their results; nothing else ever removes a run",
    )
    of_output(runs)
    runs.set_defaults(run=_runs)
    recover = commands.add_parser(
        "recover",
        help=HELP["recover"],
        description="Writes the finished repetitions of a run that was killed or interrupted to a results file. The "
        "run's folder stays as it is.",
    )
    recover.add_argument(
        "run_name",
        metavar="RUN",
        nargs="?",
        help="a name that 'carico-testbed runs' shows, or the folder of a run (default: the latest run with "
        "repetitions to recover)",
    )
    recover.add_argument(
        "--json", metavar="FILE", type=Path, help="the results file (default: result.json in the run's folder)"
    )
    recover.set_defaults(run=_recover)


def _runs(options: argparse.Namespace) -> int:
    folder = runs_folder(Path.cwd())
    if options.remove_all_but is not None:
        removed = remove_all_but(folder, options.remove_all_but)
        print(f"removed: {', '.join(run.id for run in removed) or 'nothing'}")
        return 0
    if wants_json(options):
        print_json(runs_as_json(all_runs(folder)))
    else:
        print("\n".join(runs_table(all_runs(folder))))
    return 0


def _recover(options: argparse.Namespace) -> int:
    run = run_named(options.run_name, Path.cwd())
    file = options.json or run.result
    check_writable(file)
    if run.read().state == "running":
        raise UsageError(f"run {run.id} is still going on: wait for its end, or end it")
    repetitions, problems = read_repetitions(run.log.path)
    if not repetitions and run.result.exists():
        raise UsageError(f"run {run.id} has nothing to recover: its results are in {run.result}")
    for problem in problems:
        tell(f"left out: {problem}")
    if not repetitions:
        told = f"run {run.id} has no repetitions to recover; 'carico-testbed runs' says how it ended"
        raise (UnusableFile if problems else UsageError)(told)
    write_results(file, merged(repetitions))
    print(f"results: {file} ({counted(len(repetitions), 'repetition')} of run {run.id})")
    return 0
