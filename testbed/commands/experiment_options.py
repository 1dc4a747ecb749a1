"""The options of the commands that run a scenario under schedulers: what is run, how often, and where."""

from __future__ import annotations

from argparse import ArgumentParser

from testbed import arguments
from testbed.cluster_flags import add_cluster_options
from testbed.commands.completion import offer_scenarios
from testbed.experiment.presets import DEFAULT_SEED
from testbed.providers import PROVIDERS
from testbed.schedulers import DEFAULT_SCHEDULERS


def add_experiment_options(command: ArgumentParser, repetitions: str) -> None:
    """Declare the options.

    Parameters
    ----------
    command : ArgumentParser
    repetitions : str
        What is repeated, for the help.
    """
    declare = command.add_argument
    scenario = declare(
        "scenario",
        metavar="SCENARIO",
        help="a name that 'carico-testbed list scenarios' shows, or a path to a .yaml file",
    )
    offer_scenarios(scenario)
    declare(
        "--scheduler",
        metavar="SPEC",
        nargs="+",
        action="extend",
        help="carico, carico:variant=NAME (its parameters can be changed: carico:variant=thesis-rebased,hold_off_s=2), "
        "kube-scheduler (with the requests in the scenario) or "
        "kube-scheduler:cpu=100m,memory=750Mi, one of your own as module:Class,key=value, or on a real cluster "
        f"schedulerName=NAME,manifest=FILE (default: {' '.join(DEFAULT_SCHEDULERS)})",
    )
    declare("--pods", metavar="N", type=arguments.count, help="pods of the scenario's job (default: as written)")
    declare("--nodes", metavar="N", type=arguments.count, help="nodes of the cluster (default: as written)")
    declare("--repetitions", metavar="N", type=arguments.count, default=1, help=f"{repetitions} (default: 1)")
    declare(
        "--seed",
        metavar="S",
        type=arguments.seed,
        default=DEFAULT_SEED,
        help=f"seed of the first repetition (default: {DEFAULT_SEED})",
    )
    declare(
        "--set",
        metavar="KEY=VALUE",
        type=arguments.setting,
        action="append",
        default=[],
        help="change a setting of the cluster (repeatable); 'carico-testbed list settings' shows them",
    )
    declare("--provider", choices=PROVIDERS, default=PROVIDERS[0], help="kind of cluster (default: simulated)")
    add_cluster_options(command)
