"""``carico-testbed sweep`` and ``redraw``: run a scenario over many values of one thing, and draw what that does."""

from __future__ import annotations

import argparse
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from carico.commands.output import of_output, wants_json
from carico.errors import CaricoError
from carico.files import write_whole
from testbed import arguments
from testbed.cluster_flags import chosen
from testbed.cluster_options import ClusterOptions
from testbed.commands import HELP
from testbed.commands.experiment_options import add_experiment_options
from testbed.commands.recorded_run import tell
from testbed.errors import TestbedError, Unprepared, UsageError
from testbed.experiment.cache import Cache
from testbed.experiment.preflight import listed, missing_prerequisites, output_problems
from testbed.experiment.progress import line_on_stderr
from testbed.experiment.provider import ClusterProvider, Trial
from testbed.measurement.own import installed
from testbed.providers import SIMULATED, check_settings, provider_named
from testbed.report.numbers import counted
from testbed.report.sweep_figure import sweep_figure
from testbed.report.sweep_table import sweep_table
from testbed.requirements import Problem, missing_packages
from testbed.results import runs_folder
from testbed.results.ending import end_run
from testbed.results.provenance import packages
from testbed.results.reading import read_all
from testbed.results.record import RunArguments, RunRecord
from testbed.results.run import read_run, write_run
from testbed.results.run_id import new_run_id
from testbed.results.runs import LATEST, RunFolder, all_runs, run_named
from testbed.results.schema import Repetition
from testbed.schedulers import DEFAULT_SCHEDULERS
from testbed.sweep.axis import check_axis, parse_axis
from testbed.sweep.execution import lacking, run_all
from testbed.sweep.executors import Pool, dask, dask_client, local
from testbed.sweep.series import as_csv, series_of
from testbed.sweep.sweep import (
    FILE,
    Sweep,
    differing_programs,
    points,
    programs_of,
    read_sweep,
    scenario_sha256,
    sources_of,
    trials,
    write_sweep,
)
from testbed.validation.figure import undrawable
from workloads.scenario import Scenario, load_scenario

FIGURE = "figure.svg"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    sweep = commands.add_parser(
        "sweep",
        help=HELP["sweep"],
        description="Runs a scenario at every value of one thing, and shows completion times, the most pods on a node "
        "and pods killed for memory, as a table and as a figure. What is finished is kept: the same command goes on "
        "with a sweep that was ended early.",
        epilog="example: carico-testbed sweep pi-2000 --over kube-scheduler.cpu=50m,100m,250m,500m,1,2 --repetitions 5 "
        "--processes 2",
    )
    add_experiment_options(sweep, "repetitions of every point")
    declare = sweep.add_argument
    declare(
        "--over",
        metavar="NAME=VALUE,...",
        required=True,
        help="what is changed: SCHEDULER.PARAMETER, pods, nodes, seeds, or a setting such as report_delay_s; whole "
        "numbers may be a range, seeds=1..20",
    )
    where = sweep.add_mutually_exclusive_group()
    where.add_argument(
        "--processes",
        metavar="N",
        type=arguments.count,
        default=1,
        help="repetitions that run at the same time on this machine; results do not depend on it (default: 1)",
    )
    where.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the Dask cluster whose scheduler has this address, such as tcp://10.0.0.1:8786; its workers need "
        "no shared files",
    )
    _add_files(sweep)
    declare(
        "--json", metavar="FILE", type=Path, help="write all results to this file, too, as 'carico-testbed run' does"
    )
    declare("--quiet", action="store_true", help="show no progress on standard error")
    sweep.set_defaults(run=_run)
    redraw = commands.add_parser(
        "redraw",
        help=HELP["redraw"],
        description="Shows the table of a sweep and draws its figure again, from the results of its run; nothing is "
        "run. A sweep that was ended early is drawn as far as it came.",
    )
    redraw.add_argument(
        "run_name",
        metavar="RUN",
        nargs="?",
        default=LATEST,
        help="a name that 'carico-testbed runs' shows, the folder of a run, or 'latest' (default: latest)",
    )
    _add_files(redraw)
    redraw.set_defaults(run=_redraw)


def _add_files(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--figure", metavar="FILE", type=Path, help="draw the figure to this .svg, .png or .pdf file, too"
    )
    command.add_argument("--csv", metavar="FILE", type=Path, help="write the table's numbers to this file, too")
    of_output(command, "the table's numbers, as in points.json")


def _run(options: argparse.Namespace) -> int:
    if options.attempts > 1:
        raise UsageError("a sweep does not run disturbed repetitions again: leave out --attempts")
    asked_for, scenario = _sweep(options)
    all_points = points(asked_for, scenario)
    root = Path.cwd()
    record, is_new = _record(options, asked_for, root)
    cluster = ClusterOptions(
        record.folder.id, diagnostics=record.folder.path / "diagnostics", say=tell, **chosen(vars(options))
    )
    provider = provider_named(options.provider, cluster)
    if provider.shared_hardware and (options.processes > 1 or options.dask):
        raise UsageError(
            f"runs on the provider {provider.name} would disturb one another: leave out --processes and --dask"
        )
    everything = trials(all_points, provider)
    _require(options, provider, root)
    with (
        dask_client(options.dask) if options.dask else nullcontext() as client,
        _recorded(record, asked_for, provider, is_new=is_new) as folder,
    ):
        cache = Cache(folder, measurements=installed())
        missing = lacking(everything, cache)
        if not is_new:
            tell(f"going on with run {folder.id}: {len(everything) - len(missing)} of {len(everything)} are finished")
        if missing:
            with dask(client, [trial for trial, _ in missing]) if client else local(options.processes) as pool:
                _with_progress(options, missing, cache, pool, total=len(everything))
    ending = end_run(record, "complete", options.json, datetime.now(UTC))
    _show(options, asked_for, ending.results.repetitions, record.folder)
    return 0


def _redraw(options: argparse.Namespace) -> int:
    root = Path.cwd()
    run = run_named(options.run_name, root)
    sweep = read_sweep(run.path)
    if sweep is None:
        known = [one.id for one in all_runs(runs_folder(root)) if (one.path / FILE).is_file()]
        raise UsageError(f"run {run.id} is no sweep; those that are: {', '.join(known) or 'none'}")
    found = _figure_problems(options)
    for file in (options.csv, options.figure):
        found += output_problems(file, root)
    if found:
        raise Unprepared(listed(found))
    (reading,) = read_all([run.path], root)
    for problem in reading.problems:
        tell(f"left out: {problem}")
    _show(options, sweep, reading.repetitions, run)
    return 0


def _sweep(options: argparse.Namespace) -> tuple[Sweep, Scenario]:
    """Return what was asked for; raises any error in the arguments before anything runs."""
    try:
        settings = arguments.settings_of(options.set)
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from error
    axis = parse_axis(options.over)
    schedulers = list(options.scheduler or DEFAULT_SCHEDULERS)
    if len(set(schedulers)) < len(schedulers):
        raise UsageError(f"name each scheduler once, got {' '.join(schedulers)}")
    check_axis(axis, schedulers, _known_settings(options.provider))
    check_settings(options.provider, settings)
    scenario = load_scenario(options.scenario)
    return Sweep(
        scenario=scenario.name,
        scenario_sha256=scenario_sha256(scenario),
        over=axis.name,
        values=list(axis.values),
        schedulers=schedulers,
        sources=sources_of(schedulers, axis),
        provider=options.provider,
        repetitions=options.repetitions,
        seed=options.seed,
        pods=options.pods,
        nodes=options.nodes,
        settings=dict(settings),
        programs=programs_of(schedulers, axis, installed()),
    ), scenario


def _known_settings(provider: str) -> tuple[str, ...]:
    if provider == SIMULATED:
        from testbed.simulation.parameters import SET, SimulationParameters

        return (SET, *SimulationParameters.__struct_fields__)
    if provider in ("kind", "xen"):
        from testbed.real.settings import NodeSettings

        return NodeSettings.__struct_fields__
    return ()


def _record(options: argparse.Namespace, sweep: Sweep, root: Path) -> tuple[RunRecord, bool]:
    """Return the record of the same sweep that ended early, or of a new run; and whether it is new."""
    asked = RunArguments(
        command=["carico-testbed", *options.arguments],
        preset=None,
        repetitions=sweep.repetitions,
        seed=sweep.seed,
        settings=sweep.settings,
    )
    why_anew = None
    for run in reversed(all_runs(runs_folder(root))):
        changed = _changed_since(run, sweep)
        if changed is None:
            continue
        known = run.read()
        if known.state == "complete":
            break
        other = f"another {', '.join(changed)}" if changed else ""
        if not other and known.packages != packages():
            other = "other versions of packages"
        if other:
            why_anew = why_anew or f"run {run.id} of the same sweep has used {other}: beginning anew"
            continue
        if known.state == "running":
            raise UsageError(f"the same sweep is running already, as run {run.id}: wait for its end, or end it")
        return RunRecord(root, run.id, asked), False
    if why_anew is not None:
        tell(why_anew)
    return RunRecord(root, new_run_id(datetime.now(UTC), secrets.token_hex(2)[1:]), asked), True


def _changed_since(run: RunFolder, sweep: Sweep) -> list[str] | None:
    """Return which programs have changed since a run of the same sweep; None if it is no such run."""
    try:
        earlier = read_sweep(run.path)
    except TestbedError:
        return None
    return None if earlier is None else differing_programs(earlier, sweep)


def _require(options: argparse.Namespace, provider: ClusterProvider, root: Path) -> None:
    """Check everything that would fail later; raises Unprepared."""
    found = list(missing_prerequisites(lambda: provider))
    for file in {options.json, options.csv, options.figure}:
        found += output_problems(file, root)
    found += _figure_problems(options)
    if options.dask and (lacking := missing_packages("scale")) is not None:
        found.append(lacking)
    if found:
        raise Unprepared(listed(found))


def _figure_problems(options: argparse.Namespace) -> list[Problem]:
    """Return why a figure that is asked for cannot be drawn; say only that there will be none if it is not."""
    if options.figure is not None:
        return undrawable(options.figure)
    if (lacking := missing_packages("figures")) is not None:
        tell(f"there will be no figure: {lacking}; 'carico-testbed redraw' draws it later")
    return []


@contextmanager
def _recorded(record: RunRecord, sweep: Sweep, provider: ClusterProvider, *, is_new: bool) -> Iterator[RunFolder]:
    """Record the sweep; if it ends early, its repetitions stay where the same command finds them."""
    folder = record.open(provider)
    try:
        if is_new:
            write_sweep(folder.path, sweep)
        else:
            write_run(folder.file, msgspec.structs.replace(read_run(folder.file), state="running", ended=None))
        yield folder
    except (KeyboardInterrupt, TestbedError, CaricoError) as error:
        entries, _ = folder.log.read()
        state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        record.close(state, entries, datetime.now(UTC))  # type: ignore[arg-type]
        command = shlex.join(["carico-testbed", *sys.argv[1:]])
        finished = f"{counted(len(entries), 'repetition')} {'is' if len(entries) == 1 else 'are'} finished and kept"
        tell(f"{state}: {finished}; to go on: {command}")
        raise
    finally:
        provider.close()


def _with_progress(
    options: argparse.Namespace, missing: list[tuple[Trial, int]], cache: Cache, pool: Pool, total: int
) -> None:
    from tqdm import tqdm

    line, began, finished = line_on_stderr(), time.monotonic(), total - len(missing)
    before = finished

    def done() -> None:
        nonlocal finished
        finished += 1
        if not options.quiet:
            taken = time.monotonic() - began
            line.show(tqdm.format_meter(finished, total, taken, ncols=79, initial=before, unit=" runs", ascii=True))

    try:
        run_all(missing, cache, pool, done)
    finally:
        line.clear()


def _show(options: argparse.Namespace, sweep: Sweep, repetitions: list[Repetition], folder: RunFolder) -> None:
    """Print the table, and write its numbers and the figure."""
    found = series_of(sweep, repetitions)
    table = as_csv(sweep, found).encode()
    numbers = msgspec.json.format(msgspec.json.encode({"sweep": sweep, "series": found})) + b"\n"
    written = [(folder.path / "points.json", numbers), (folder.path / "points.csv", table)]
    if options.csv is not None:
        written.append((options.csv, table))
    if missing_packages("figures") is None:
        written.append((folder.path / FIGURE, sweep_figure(sweep, found)))
        if options.figure is not None:
            written.append((options.figure, sweep_figure(sweep, found, options.figure.suffix[1:])))
    for file, content in written:
        try:
            write_whole(file, content)
        except OSError as error:
            raise TestbedError(f"cannot write {file}: {error.strerror}") from error
    if wants_json(options):
        print(numbers.decode(), end="")
        return
    names = [file.name for file, _ in written if file.parent == folder.path]
    print("\n".join([*sweep_table(sweep, found), "", f"results, {', '.join(sorted(names))}: {folder.path}"]))
