"""``carico-testbed validate``: compare the simulated cluster with kind, on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from carico.commands.output import of_output, wants_json
from testbed import arguments
from testbed.cluster_flags import add_cluster_options
from testbed.commands import HELP
from testbed.commands.completion import offer_scenarios
from testbed.commands.recorded_run import RecordedRun
from testbed.experiment.presets import DEFAULT_SEED
from testbed.requirements import check_installed

SCENARIO = "pi-two-nodes"
SCHEDULERS = ("kube-scheduler:cpu=50m", "kube-scheduler:cpu=250m", "carico")
REPETITIONS, SIMULATED = 6, 20
OF_OTHER_CLUSTERS = ("kubeconfig", "context", "workload_image", "xen")
"""Options of clusters that are not of kind."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    validate = commands.add_parser(
        "validate",
        help=HELP["validate"],
        description="Measures on a kind cluster what starting and stopping containers costs, and runs the scenario "
        "there under each scheduler. Then runs it on a simulated cluster with the same nodes, costs and CPU times. "
        "Shows the mean completion times of pods (PCT) and of the job (JCT) on both clusters, side by side. Needs "
        "root, and a machine without other work.",
        epilog="example: carico-testbed validate --repetitions 3 --json validation.json --figure validation.svg",
    )
    scenario = validate.add_argument(
        "scenario",
        metavar="SCENARIO",
        nargs="?",
        default=SCENARIO,
        help="a name that 'carico-testbed list scenarios' shows, or a path to a .yaml file; its programs must print "
        f"their CPU time, as pi and mlp do (default: {SCENARIO})",
    )
    offer_scenarios(scenario)
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
        help=f"repetitions on kind, in turns; with six or more, intervals are bootstrapped (default: {REPETITIONS})",
    )
    validate.add_argument(
        "--simulated",
        metavar="N",
        type=arguments.count,
        default=SIMULATED,
        help=f"repetitions on the simulated cluster (default: {SIMULATED})",
    )
    validate.add_argument(
        "--seed",
        metavar="S",
        type=arguments.seed,
        default=DEFAULT_SEED,
        help=f"seed of the first repetition (default: {DEFAULT_SEED})",
    )
    validate.add_argument("--json", metavar="FILE", type=Path, help="write all measurements to this file")
    validate.add_argument("--figure", metavar="FILE", type=Path, help="draw both clusters' times (.svg, .png, .pdf)")
    add_cluster_options(validate, without=OF_OTHER_CLUSTERS)
    validate.add_argument("--quiet", action="store_true", help="show no progress on standard error")
    of_output(validate, "all measurements, as in the file of --json")
    validate.set_defaults(run=_validate)


def _validate(options: argparse.Namespace) -> int:
    check_installed("cluster")
    from testbed.experiment.plan import Plan
    from testbed.real.kind.maker import KindMaker
    from testbed.real.kind.platform import KindPlatform
    from testbed.real.lifecycle import MadeCluster
    from testbed.real.provider import RealProvider
    from testbed.report.tables import stolen_note
    from testbed.schedulers.spec import parse_spec
    from testbed.validation.agreement import agreement_table, agreements
    from testbed.validation.demands import check_measurable, demands_table, measured_demands
    from testbed.validation.figure import draw, undrawable
    from testbed.validation.measured_node import rights_problem
    from testbed.validation.validation import encoded, measure, simulate, write_validation
    from workloads.scenario import load_scenario

    scenario = load_scenario(options.scenario)
    check_measurable(scenario)
    schedulers = tuple(parse_spec(text) for text in options.scheduler or SCHEDULERS)
    plan = Plan(scenario, schedulers, options.repetitions, options.seed)
    run = RecordedRun(options, plan)
    cluster_options = run.cluster_options
    maker = KindMaker(cluster_options.workers, cluster_options.node_image, cluster_options.pytest_kind)
    platform = KindPlatform(maker)
    provider = RealProvider(MadeCluster(maker, cluster_options), platform, cluster_options)
    files = [file for file in (options.json, options.figure) if file is not None]
    problems = rights_problem() + ([] if options.figure is None else undrawable(options.figure))
    checked = run.checked(provider, files or [None], problems)

    def show(table: list[str]) -> None:
        if not wants_json(options):
            print("\n".join(table), end="\n\n", flush=True)

    with run.recorded(provider) as cache:
        run.show("opening the cluster")
        measured = measure(provider.cluster(), maker, platform, plan, run=run.id, say=run.show)
        run.clear()
        show(measured.table())
        real = checked.run(run.show_pass, through=cache.trial)
        run.clear()
        demands = measured_demands(scenario, real)
        show(demands_table(demands))
        simulated = simulate(measured, demands, plan, options.simulated, on_progress=run.show_pass)
    run.complete()
    if options.json is not None:
        write_validation(options.json, measured, real, simulated)
    if options.figure is not None:
        draw(options.figure, real, simulated)
    if wants_json(options):
        print(encoded(measured, real, simulated).decode(), end="")
    else:
        print("\n".join([*agreement_table(agreements(real, simulated)), *stolen_note(real)]))
    return 0
