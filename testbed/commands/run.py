"""``carico-testbed run``: run a scenario under schedulers and show the completion times."""

from __future__ import annotations

import argparse
from pathlib import Path

from carico.commands.output import of_output, wants_json
from testbed import arguments
from testbed.commands import HELP
from testbed.commands.experiment_options import add_experiment_options
from testbed.commands.recorded_run import RecordedRun, tell
from testbed.errors import UsageError
from testbed.experiment.plan import Plan
from testbed.measurement.completion_times import why_incomplete
from testbed.providers import check_settings, provider_named
from testbed.report.latencies import latency_table
from testbed.report.tables import distributions, stolen_note
from testbed.results.schema import Repetition
from testbed.schedulers import DEFAULT_SCHEDULERS
from testbed.schedulers.spec import parse_spec
from workloads.scenario import load_scenario

TOLD = 10
"""The most messages about jobs that did not complete; a trace may have hundreds."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    run = commands.add_parser(
        "run",
        help=HELP["run"],
        description="Runs a scenario under one or several schedulers and shows, for every job, the completion times "
        "of its pods (PCT: from a pod's start to its completion) and its own (JCT: from the job's publication to the "
        "completion of its last pod). Exit code 1 if a job did not complete.",
        epilog="example: carico-testbed run pi-2000 --scheduler carico kube-scheduler:cpu=100m --pods 500",
    )
    add_experiment_options(run, "repetitions under every scheduler, in turns, each with the next seed")
    declare = run.add_argument
    declare(
        "--processes",
        metavar="N",
        type=arguments.count,
        default=1,
        help="number of repetitions that run at the same time; results do not depend on it (default: 1)",
    )
    declare(
        "--json",
        metavar="FILE",
        type=Path,
        help="write all results to this file, too, the same bytes for the same seed (they are also in .carico/latest); "
        "after Ctrl-C, the finished repetitions are in FILE.partial",
    )
    declare("--quiet", action="store_true", help="show no progress on standard error")
    of_output(run, "what is in the results file (docs/reference/json.md)")
    run.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    run = RecordedRun(options, _plan(options))
    provider = provider_named(options.provider, run.cluster_options)
    plan = run.checked(provider, [options.json])
    with run.recorded(provider, options.json) as cache:
        repetitions = plan.run(run.show_pass, options.processes, cache.trial)
    if not wants_json(options):
        tables = [distributions(repetitions), latency_table(repetitions), stolen_note(repetitions)]
        print("\n\n".join("\n".join(table) for table in tables if table))
    results = run.complete(options.json).file
    if not wants_json(options):
        print(f"\nresults: {results}")
    elif results is not None:
        print(results.read_text(encoding="utf-8"), end="")
    failures = [failure for one in repetitions for failure in _failures(one)]
    for failure in failures[:TOLD]:
        tell(failure)
    if (more := len(failures) - TOLD) > 0:
        tell(f"and {more} more did not complete")
    return 1 if failures else 0


def _plan(options: argparse.Namespace) -> Plan:
    """Return the plan; raises any error in the arguments before anything runs."""
    try:
        settings = arguments.settings_of(options.set)
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from error
    check_settings(options.provider, settings)
    schedulers = tuple(parse_spec(text) for text in options.scheduler or DEFAULT_SCHEDULERS)
    scenario = load_scenario(options.scenario).scaled(options.pods, options.nodes)
    return Plan(scenario, schedulers, repetitions=options.repetitions, seed=options.seed, settings=settings)


def _failures(repetition: Repetition) -> list[str]:
    """Return a message for each job that did not complete; disturbances need not complete."""
    return [
        f"job {job} did not complete under {repetition.scheduler} with seed {repetition.seed}: "
        f"{why_incomplete(repetition, job)}"
        for job in repetition.measured_jobs
        if repetition.job_completion_time_s[job] is None
    ]
