"""The command `carico-testbed`: arguments, exit codes and what a user is told; no work of its own.

Exit codes: 0 done, 1 a job did not complete or the results could not be written, 2 wrong arguments, 4 something that a
run needs is missing, 130 Ctrl-C, 143 SIGTERM, 141 the reader of a pipe has gone.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from carico import __version__
from carico.errors import CaricoError
from testbed.commands import arguments
from testbed.commands import clean as clusters
from testbed.commands import validate as validation
from testbed.commands.cluster_options import add_cluster_options, wishes_of
from testbed.commands.recovery import save_unfinished
from testbed.errors import UNPREPARED, ResultsError, TestbedError, Unprepared, UsageError
from testbed.experiment.cache import Remembered
from testbed.experiment.plan import Plan, run_plan
from testbed.experiment.preflight import listed, missing_prerequisites, unusable_places
from testbed.experiment.progress import describe, line_on_stderr
from testbed.images import command as images
from testbed.measurement.completion_times import why_incomplete
from testbed.providers import PROVIDERS, check_settings, provider_named
from testbed.report.latencies import latency_table
from testbed.report.listing import listing
from testbed.report.runs import runs_table
from testbed.report.tables import distributions, stolen_note
from testbed.results import runs_folder
from testbed.results.record import Asked, RunRecord
from testbed.results.repetition_log import notice_of
from testbed.results.run_id import new_run_id
from testbed.results.runs import all_runs, left_overs, run_named
from testbed.results.schema import Repetition
from testbed.results.store import merged, write_complete, write_results
from testbed.schedulers import DEFAULT_SCHEDULERS
from testbed.schedulers.spec import parse_spec
from workloads.errors import WorkloadError
from workloads.scenario import load_scenario

FAILED, USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (the process's by default) name and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a table in a terminal without ± is better than none
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given, argparse.Namespace(arguments=list(given)))
    try:
        with _interrupted_by_sigterm():
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except (UsageError, WorkloadError, CaricoError) as error:
        print(f"carico-testbed: {error}", file=sys.stderr)
        return USAGE
    except Unprepared as error:
        print(f"carico-testbed: {error}", file=sys.stderr)
        return UNPREPARED
    except TestbedError as error:
        print(f"carico-testbed: {error}", file=sys.stderr)
        return FAILED
    except _Terminated:
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        # Python flushes standard output once more when it exits; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        print(f"carico-testbed: cannot write the output: {error.strerror}", file=sys.stderr)
        return FAILED


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as batch systems send it: like Ctrl-C but for the exit code."""


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    def leave(_number: int, _frame: object) -> None:
        raise _Terminated

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="carico-testbed",
        description="Measures what a Kubernetes scheduler does to real jobs, by default on an embedded simulated "
        "cluster: seconds, no set-up, the same result for the same seed.",
    )
    parser.add_argument("--version", action="version", version=f"carico-testbed {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    lister = commands.add_parser(
        "list",
        help="show the scenarios, schedulers and settings there are",
        description="Shows the scenarios of the catalogue, the schedulers and CARICO's variants, and the settings of "
        "the simulated cluster with their defaults.",
    )
    lister.set_defaults(run=_list)
    _add_run(commands)
    runs = commands.add_parser(
        "runs",
        help="show the runs that were started in this folder",
        description="Shows the runs in .carico/runs, which are sessions of pytest and calls of 'carico-testbed run' "
        "and 'validate': when they were started, what became of them, and whether finished repetitions can be "
        "recovered.",
    )
    runs.set_defaults(run=_runs)
    recover = commands.add_parser(
        "recover",
        help="write the finished repetitions of a run that has ended early to a results file",
        description="Writes the repetitions that a run had finished when it was killed or interrupted to a results "
        "file. The run's folder stays as it is.",
    )
    recover.add_argument(
        "run_name",
        metavar="RUN",
        nargs="?",
        help="a name that 'carico-testbed runs' shows, or the folder of a run (default: the latest with anything to "
        "recover)",
    )
    recover.add_argument(
        "--json", metavar="FILE", type=Path, help="where to write it (default: result.json in the run's folder)"
    )
    recover.set_defaults(run=_recover)
    images.add(commands)
    clusters.add(commands)
    validation.add(commands)
    return parser


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run a scenario under schedulers and show the completion times",
        description="Runs a scenario under one or several schedulers and shows, for every job, the completion times "
        "of its pods (PCT: a pod starts running until it completes) and its own (JCT: the job is published until its "
        "last pod completes). Exit code 1 if a job did not complete.",
        epilog="example: carico-testbed run pi-2000 --scheduler carico kube-scheduler:cpu=100m --pods 500",
    )
    run.add_argument(
        "scenario", metavar="SCENARIO", help="a name that 'carico-testbed list' shows, or a path to a .yaml file"
    )
    run.add_argument(
        "--scheduler",
        metavar="SPEC",
        nargs="+",
        action="extend",
        help="carico, carico:variant=NAME (any parameter can be changed: carico:variant=NAME,hold_off_s=2), "
        "kube-scheduler (with the requests that the scenario has written) or "
        f"kube-scheduler:cpu=100m,memory=750Mi (default: {' '.join(DEFAULT_SCHEDULERS)})",
    )
    run.add_argument(
        "--pods", metavar="N", type=arguments.count, help="pods of the scenario's job (default: as written)"
    )
    run.add_argument("--nodes", metavar="N", type=arguments.count, help="nodes of the cluster (default: as written)")
    run.add_argument(
        "--repetitions",
        metavar="N",
        type=arguments.count,
        default=1,
        help="runs of every scheduler, in turns, each with the next seed (default: 1)",
    )
    run.add_argument(
        "--seed",
        metavar="S",
        type=arguments.seed,
        default=arguments.DEFAULT_SEED,
        help=f"seed of the first repetition (default: {arguments.DEFAULT_SEED})",
    )
    run.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=arguments.setting,
        action="append",
        default=[],
        help="change a setting of the cluster, may be repeated; 'carico-testbed list' shows them",
    )
    run.add_argument("--provider", choices=PROVIDERS, default=PROVIDERS[0], help="kind of cluster (default: simulated)")
    add_cluster_options(run)
    run.add_argument("--kubeconfig", metavar="FILE", type=Path, help=arguments.KUBECONFIG_HELP)
    run.add_argument("--context", metavar="NAME", help=arguments.CONTEXT_HELP)
    run.add_argument("--workload-image", metavar="IMAGE", help=arguments.WORKLOAD_IMAGE_HELP)
    run.add_argument(
        "--processes",
        metavar="N",
        type=arguments.count,
        default=1,
        help="repetitions that run at the same time; the results are the same with any number (default: 1)",
    )
    run.add_argument(
        "--json",
        metavar="FILE",
        type=Path,
        help="write everything that was measured there, the same bytes for the same seed (default: only the table); "
        "after Ctrl-C what was finished is in FILE.partial",
    )
    run.add_argument("--quiet", action="store_true", help="no progress on standard error")
    run.set_defaults(run=_run)


def _list(options: argparse.Namespace) -> int:
    print("\n".join(listing()))
    return 0


def _run(options: argparse.Namespace) -> int:
    plan = _plan(options)
    root = Path.cwd()
    run_id = new_run_id(_now(), secrets.token_hex(3))
    wishes = replace(
        wishes_of(options, run_id, root),
        kubeconfig=options.kubeconfig,
        context=options.context,
        workload_image=options.workload_image,
    )
    provider = provider_named(options.provider, wishes)
    plan.check(provider)
    problems = missing_prerequisites(lambda: provider) + unusable_places(options.json, root)
    if problems:
        raise Unprepared(listed(problems))
    record = RunRecord(
        root,
        run_id,
        Asked(
            ["carico-testbed", *options.arguments],
            None,
            plan.repetitions,
            plan.seed,
            plan.settings,
            options.attempts,
        ),
    )
    for said in left_overs(runs_folder(root)):
        print(f"carico-testbed: {said}", file=sys.stderr)
    folder = record.open(provider.name, provider.kubernetes_version())
    remembered = Remembered(provider, folder, options.attempts)
    line = line_on_stderr()
    try:
        repetitions = run_plan(
            plan,
            remembered,
            None if options.quiet else lambda one, progress: line.show(describe(one, progress)),
            processes=options.processes,
        )
    except (KeyboardInterrupt, TestbedError) as error:
        line.clear()
        save_unfinished(options.json, record, len(plan.passes()), isinstance(error, KeyboardInterrupt))
        raise
    finally:
        line.clear()
        provider.close()
    tables = [distributions(repetitions), latency_table(repetitions), stolen_note(repetitions)]
    print("\n\n".join("\n".join(table) for table in tables if table))
    _save(options.json, record)
    failures = [failure for one in repetitions for failure in _failures(one)]
    for failure in failures:
        print(f"carico-testbed: {failure}", file=sys.stderr)
    return FAILED if failures else 0


def _plan(options: argparse.Namespace) -> Plan:
    """Everything that can be wrong with the arguments is found here, before anything runs."""
    try:
        settings = arguments.settings_of(options.set)
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from error
    check_settings(options.provider, settings)
    schedulers = tuple(parse_spec(text) for text in options.scheduler or DEFAULT_SCHEDULERS)
    scenario = load_scenario(options.scenario).scaled(options.pods, options.nodes)
    return Plan(scenario, schedulers, options.repetitions, options.seed, settings)


def _save(file: Path | None, record: RunRecord) -> None:
    """Write the results file if one is asked for; else what was measured stays in the run's folder for a while."""
    lines, _ = record.folder.lines.read()
    try:
        if file is not None:
            write_complete(file, merged(line.repetition for line in lines))
    except ResultsError:
        record.close("failed", lines, _now())
        print(
            f"carico-testbed: to write the results elsewhere: {record.folder.recovery()} --json FILE", file=sys.stderr
        )
        raise
    record.close("complete", lines, _now(), file)
    print(
        f"\nresults: {file}" if file is not None else f"\nto keep the results: {record.folder.recovery()} --json FILE"
    )


def _runs(options: argparse.Namespace) -> int:
    print("\n".join(runs_table(all_runs(runs_folder(Path.cwd())))))
    return 0


def _recover(options: argparse.Namespace) -> int:
    run = run_named(options.run_name, Path.cwd())
    if run.read().state == "running":
        raise UsageError(f"run {run.id} is still going on: wait for its end, or end it")
    lines, cut_off = run.lines.read()
    if not lines:
        raise UsageError(f"run {run.id} has no repetitions to recover; 'carico-testbed runs' says what became of it")
    file = options.json or run.path / "result.json"
    write_results(file, merged(line.repetition for line in lines))
    print(f"results: {file} ({len(lines)} repetition{'s' * (len(lines) != 1)} of run {run.id})")
    if cut_off:
        print(f"carico-testbed: {notice_of(cut_off)}", file=sys.stderr)
    return 0


def _failures(repetition: Repetition) -> list[str]:
    """Say which jobs did not complete, and why; disturbances need not."""
    return [
        f"job {job} did not complete under {repetition.scheduler} with seed {repetition.seed}: "
        f"{why_incomplete(repetition, job)}"
        for job in repetition.measured_jobs
        if repetition.job_completion_time_s[job] is None
    ]


def _now() -> datetime:
    return datetime.now(UTC)
