"""The parts of a validation: measures a kind cluster, and runs its scenario on a simulated cluster like it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from packaging.version import Version

from carico.files import write_whole
from testbed.errors import ResultsError
from testbed.experiment.plan import OnProgress, Plan
from testbed.real.kind.maker import KindMaker
from testbed.real.kind.platform import KindPlatform
from testbed.real.lifecycle import Cluster
from testbed.real.namespaces import wait_until_clean
from testbed.report.numbers import WIDTH
from testbed.results.provenance import machine
from testbed.results.run import Machine
from testbed.results.schema import Repetition
from testbed.simulation.provider import SimulatedProvider
from testbed.validation.container_costs import ContainerCosts, costs_table
from testbed.validation.demands import twin_of
from testbed.validation.measured_node import TURNS, Say, measured_costs, platform_requests

HAS_QUEUEING_HINTS = Version("1.32")
"""The first Kubernetes whose kube-scheduler has queueing hints (SchedulerQueueingHints): any change of an assigned pod
gives pods that an extender refused another attempt."""
POPS_FROM_BACKOFF = Version("1.33")
"""The first Kubernetes whose kube-scheduler takes pods from the back-off queue when idle (SchedulerPopFromBackoffQ)."""


class Measured(msgspec.Struct, frozen=True):
    """The measurements of the cluster before runs are compared."""

    costs: ContainerCosts
    settings: dict[str, Any]
    """Settings of a simulated cluster with the same nodes."""

    def table(self) -> list[str]:
        """Return the measurements as text, 80 columns wide."""
        as_settings = " ".join(f"{name}={value:g}" for name, value in self.settings.items())
        wrapped = textwrap.wrap(as_settings, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        return [
            *costs_table(self.costs),
            "The same as settings of the simulated cluster (--set NAME=VALUE)",
            *wrapped,
        ]


class Validation(msgspec.Struct, frozen=True):
    """The contents of the JSON file of `carico-testbed validate`."""

    measured: Measured
    real: list[Repetition]
    simulated: list[Repetition]
    machine: Machine
    schema_version: int = 2


def measure(
    cluster: Cluster, maker: KindMaker, platform: KindPlatform, plan: Plan, *, run: str, say: Say, turns: int = TURNS
) -> Measured:
    """Measure a cluster.

    Parameters
    ----------
    cluster : Cluster
    maker : KindMaker
    platform : KindPlatform
    plan : Plan
        The cluster is prepared for its first scheduler.
    run : str
        The value of our label.
    say : callable
        Called with messages about the progress.
    turns : int
        How often everything is measured.

    Raises
    ------
    ClusterError, KubeError, TelemetryError
        If the cluster fails, or its API or counters cannot be read.
    """
    say("preparing nodes")
    wait_until_clean(cluster.api)
    scheduler = plan.schedulers[0]
    setup = platform.check(plan.scenario, scheduler, plan.settings)
    prepared = setup.prepare(cluster)
    costs = measured_costs(cluster, maker, prepared, plan.scenario, run=run, say=say, turns=turns)
    version = Version(cluster.kubernetes_version)
    like_it = {
        "quota_of_cpus": setup.machine_cpus,
        "warm_up_s": setup.chosen.warm_up_s,
        "queueing_hints": version >= HAS_QUEUEING_HINTS,
        "pop_from_backoff": version >= POPS_FROM_BACKOFF,
        **platform_requests(cluster, list(prepared.names)),
        **costs.settings(),
    }
    return Measured(costs, like_it)


def simulate(
    measured: Measured,
    demands_cpu_s: Mapping[str, Sequence[float]],
    plan: Plan,
    repetitions: int,
    on_progress: OnProgress | None,
) -> list[Repetition]:
    """Run the plan's scenario on a simulated cluster like the measured one, with measured demands."""
    twin = twin_of(plan.scenario, demands_cpu_s)
    simulated = Plan(twin, plan.schedulers, repetitions=repetitions, seed=plan.seed, settings=measured.settings)
    return simulated.check(SimulatedProvider()).run(on_progress)


def encoded(measured: Measured, real: list[Repetition], simulated: list[Repetition]) -> bytes:
    """Return all measurements as JSON."""
    return msgspec.json.encode(Validation(measured, real, simulated, machine())) + b"\n"


def write_validation(file: Path, measured: Measured, real: list[Repetition], simulated: list[Repetition]) -> None:
    """Write all measurements to a file; raises ResultsError if that is not possible."""
    try:
        write_whole(file, encoded(measured, real, simulated))
    except OSError as error:
        raise ResultsError(f"cannot write the validation to {file}: {error.strerror}") from error
