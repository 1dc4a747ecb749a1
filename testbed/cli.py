"""The command `carico-testbed`: arguments, exit codes and what a user is told; no work of its own.

Exit codes: 0 done, 1 a job did not complete or the results could not be written, 2 wrong arguments, 130 Ctrl-C, 141 the
reader of a pipe has gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from carico import __version__
from carico.errors import CaricoError
from testbed import arguments
from testbed.clusters.kinds import PROVIDERS, check_settings, provider_named
from testbed.errors import ResultsError, TestbedError, UsageError
from testbed.experiment import Plan, run_plan
from testbed.progress import ProgressLine, describe
from testbed.report.latencies import latency_table
from testbed.report.listing import listing
from testbed.report.tables import distributions
from testbed.results.schema import Repetition
from testbed.results.store import check_writable, merged, partial_path, write_complete, write_results
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
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except (UsageError, WorkloadError, CaricoError) as error:
        print(f"carico-testbed: {error}", file=sys.stderr)
        return USAGE
    except TestbedError as error:
        print(f"carico-testbed: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        # Python flushes standard output once more when it exits; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        print(f"carico-testbed: cannot write the output: {error.strerror}", file=sys.stderr)
        return FAILED


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
    line = ProgressLine(_write_to_stderr, sys.stderr.isatty())
    finished: list[Repetition] = []
    try:
        repetitions = run_plan(
            plan,
            provider_named(options.provider),
            None if options.quiet else lambda one, progress: line.show(describe(one, progress)),
            finished.append,
            options.processes,
        )
    except (KeyboardInterrupt, TestbedError) as error:
        line.clear()
        if finished or isinstance(error, KeyboardInterrupt):
            _save_interrupted(options.json, finished, len(plan.passes()))
        raise
    finally:
        line.clear()
    print("\n".join([*distributions(repetitions), *latency_table(repetitions)]))
    failures = [failure for one in repetitions for failure in _failures(one)]
    if options.json is not None:
        write_complete(options.json, merged(repetitions))
        print(f"\nresults: {options.json}")
    for failure in failures:
        print(f"carico-testbed: {failure}", file=sys.stderr)
    return FAILED if failures else 0


def _plan(options: argparse.Namespace) -> Plan:
    """Everything that can be wrong with the arguments is found here, before anything runs."""
    try:
        settings = arguments.settings_of(options.set)
        if options.json is not None:
            check_writable(options.json)
    except (argparse.ArgumentTypeError, ResultsError) as error:
        raise UsageError(str(error)) from error
    check_settings(options.provider, settings)
    schedulers = tuple(parse_spec(text) for text in options.scheduler or DEFAULT_SCHEDULERS)
    scenario = load_scenario(options.scenario).scaled(options.pods, options.nodes)
    return Plan(scenario, schedulers, options.repetitions, options.seed, settings)


def _failures(repetition: Repetition) -> list[str]:
    """Say which jobs did not complete; disturbances need not."""
    found = []
    for job, pods in repetition.measured_jobs.items():
        if repetition.job_completion_time_s[job] is None:
            done = sum(pod.job == job and pod.outcome == "succeeded" for pod in repetition.pods)
            found.append(
                f"job {job} did not complete under {repetition.scheduler} with seed {repetition.seed}: "
                f"{done} of {pods} pods succeeded"
            )
    return found


def _save_interrupted(file: Path | None, finished: Sequence[Repetition], asked_for: int) -> None:
    said = f"interrupted after {len(finished)} of {asked_for} runs"
    if file is not None and finished:
        write_results(partial_path(file), merged(finished))
        said += f"; they are in {partial_path(file)}"
    print(f"carico-testbed: {said}", file=sys.stderr)


def _write_to_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
