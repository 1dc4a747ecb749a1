"""Checks of what the simulated cluster can run, before anything runs."""

from __future__ import annotations

from carico.demand.settings import DemandVariant
from carico.errors import InvalidInput
from carico.model.variants import Variant, on_metrics_server
from testbed.errors import UsageError
from testbed.schedulers.spec import SchedulerSpec
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.by_kind import check_kind
from workloads.scenario import Scenario


def check(
    scenario: Scenario, scheduler: SchedulerSpec, parameters: SimulationParameters, observer: Variant | None = None
) -> None:
    """Check that a scenario can be run under a scheduler, and under the agents of `observer` beside it, if any.

    Raises
    ------
    UsageError
        If the scheduler is for real clusters, a node can never hold a pod of some job, or agents cannot see what they
        learn from.
    """
    check_kind(scheduler)
    _check_fit(scenario, scheduler, parameters)
    _check_telemetry(scheduler.agents or observer, parameters)


def _check_fit(scenario: Scenario, scheduler: SchedulerSpec, parameters: SimulationParameters) -> None:
    """Refuse a job whose pods no node can hold: they would wait for ever, or be killed again and again."""
    scheduler.check_fits(scenario, parameters.platform_millicpu, parameters.platform_memory_mib * 2**20)
    largest = max(pool.memory_bytes for pool in scenario.cluster.each_pool)
    free = (1.0 - parameters.background_memory) * largest
    for job in scenario.jobs:
        used = job.demand.memory_bytes
        if used > free:
            raise UsageError(
                f"a pod of job {job.name} uses {used / 2**20:.0f} MiB at its peak, a node has at most "
                f"{free / 2**20:.0f} MiB beside what the platform holds "
                f"(background_memory={parameters.background_memory:g}): "
                f"give the nodes more memory, or every pod is killed for it"
            )


def _check_telemetry(variant: Variant | DemandVariant | None, parameters: SimulationParameters) -> None:
    """Refuse agents that cannot see what they learn from."""
    if variant is None or parameters.telemetry != "metrics-server":
        return
    if isinstance(variant, DemandVariant):
        raise UsageError(
            f"telemetry=metrics-server: a metrics server provides no pressure, which the variant {variant.name} "
            f"learns from: use the variant utilisation-only"
        )
    try:
        on_metrics_server(variant, parameters.metrics_period_s)
    except InvalidInput as error:
        raise UsageError(f"telemetry=metrics-server: {error}") from error
