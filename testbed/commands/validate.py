"""``carico-testbed validate``: hold the simulated cluster against kind, on this machine."""

from __future__ import annotations

import argparse
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from carico.errors import CaricoError
from testbed.commands import arguments
from testbed.commands.cluster_options import add_cluster_options, wishes_of
from testbed.errors import TestbedError, Unprepared
from testbed.experiment.preflight import listed, missing_prerequisites, unusable_places
from testbed.experiment.progress import describe, line_on_stderr
from testbed.requirements import check_installed
from testbed.results.run_id import new_run_id

if TYPE_CHECKING:
    from testbed.experiment.plan import Pass
    from testbed.experiment.provider import Progress

SCENARIO = "pi-two-nodes"
SCHEDULERS = ("kube-scheduler:cpu=50m", "kube-scheduler:cpu=250m", "carico")
REPETITIONS, SIMULATED = 6, 20
WARM_UP_S = 10.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    validate = commands.add_parser(
        "validate",
        help="run the same scenario on kind and on the simulated cluster, and compare",
        description="Measures on a kind cluster what starting and stopping containers costs, runs the scenario there "
        "under each scheduler, and runs it on a simulated cluster of such nodes with the CPU time that the programs "
        "took there. Shows the mean completion time of pods (PCT) and that of the job (JCT) of "
        "both, side by side. Wants the machine for itself, and root.",
        epilog="example: carico-testbed validate --repetitions 3 --json validation.json --figure validation.svg",
    )
    validate.add_argument(
        "scenario",
        metavar="SCENARIO",
        nargs="?",
        default=SCENARIO,
        help=f"of programs that tell what they took: pi, mlp (default: {SCENARIO})",
    )
    validate.add_argument(
        "--scheduler",
        metavar="SPEC",
        nargs="+",
        action="extend",
        help=f"as for 'carico-testbed run' (default: {' '.join(SCHEDULERS)})",
    )
    validate.add_argument(
        "--repetitions",
        metavar="N",
        type=arguments.count,
        default=REPETITIONS,
        help=f"on kind, in turns; from six on intervals are bootstrapped (default: {REPETITIONS})",
    )
    validate.add_argument(
        "--simulated",
        metavar="N",
        type=arguments.count,
        default=SIMULATED,
        help=f"repetitions on the simulated cluster (default: {SIMULATED})",
    )
    validate.add_argument(
        "--seed", metavar="S", type=arguments.seed, default=arguments.DEFAULT_SEED, help="of the first repetition"
    )
    validate.add_argument("--json", metavar="FILE", type=Path, help="write everything that was measured there")
    validate.add_argument("--figure", metavar="FILE", type=Path, help="draw both there (.svg, .png, .pdf)")
    add_cluster_options(validate)
    validate.add_argument("--quiet", action="store_true", help="no progress on standard error")
    validate.set_defaults(run=_validate)


def _validate(options: argparse.Namespace) -> int:
    check_installed("cluster")
    from testbed.commands.recovery import save_unfinished
    from testbed.experiment.cache import Remembered
    from testbed.experiment.plan import Plan, run_plan
    from testbed.real.kind.maker import KindMaker
    from testbed.real.kind.platform import Containers
    from testbed.real.lifecycle import ClusterLife
    from testbed.real.provider import RealProvider
    from testbed.report.tables import stolen_note
    from testbed.results.record import Asked, RunRecord
    from testbed.schedulers.spec import parse_spec
    from testbed.validation.agreement import agreement_table, agreements
    from testbed.validation.demands import check_measurable, demands_table, measured_demands
    from testbed.validation.figure import draw, undrawable
    from testbed.validation.measured_node import rights_problem
    from testbed.validation.validation import measure, simulate, write_validation
    from workloads.scenario import load_scenario

    root, run_id = Path.cwd(), new_run_id(datetime.now(UTC), secrets.token_hex(3))
    scenario = load_scenario(options.scenario)
    check_measurable(scenario)
    schedulers = tuple(parse_spec(text) for text in options.scheduler or SCHEDULERS)
    plan = Plan(scenario, schedulers, options.repetitions, options.seed, {"warm_up_s": WARM_UP_S})
    wishes = wishes_of(options, run_id, root)
    maker = KindMaker(wishes.workers, wishes.node_image)
    platform = Containers(maker)
    provider = RealProvider(maker, platform, wishes, ClusterLife(maker, wishes))
    plan.check(provider)
    files = [file for file in (options.json, options.figure) if file is not None]
    problems = missing_prerequisites(lambda: provider) + rights_problem()
    problems += [problem for file in files or [None] for problem in unusable_places(file, root)]
    if options.figure is not None:
        problems += undrawable(options.figure)
    if problems:
        raise Unprepared(listed(problems))
    command = ["carico-testbed", *options.arguments]
    asked = Asked(command, None, plan.repetitions, plan.seed, plan.settings, options.attempts)
    record = RunRecord(root, run_id, asked)
    folder = record.open(provider.name, provider.kubernetes_version())
    remembered = Remembered(provider, folder, options.attempts)
    line = line_on_stderr()

    def say(text: str) -> None:
        if not options.quiet:
            line.show(text)

    def tell(one: Pass, progress: Progress) -> None:
        say(describe(one, progress))

    try:
        say("opening the cluster")
        measured = measure(provider.cluster(), maker, platform, plan, run_id, say)
        line.clear()
        print("\n".join(measured.table()), end="\n\n", flush=True)
        real = run_plan(plan, remembered, tell)
        line.clear()
        demands = measured_demands(scenario, real)
        print("\n".join(demands_table(demands)), end="\n\n", flush=True)
        simulated = simulate(measured, demands, plan, options.simulated, tell)
    except (KeyboardInterrupt, TestbedError, CaricoError) as error:
        line.clear()
        save_unfinished(None, record, len(plan.passes()), isinstance(error, KeyboardInterrupt))
        raise
    finally:
        line.clear()
        provider.close()
    lines, _ = record.folder.lines.read()
    record.close("complete", lines, datetime.now(UTC), None)
    if options.json is not None:
        write_validation(options.json, measured, real, simulated)
    if options.figure is not None:
        draw(options.figure, real, simulated)
    print("\n".join([*agreement_table(agreements(real, simulated)), *stolen_note(real)]))
    return 0
