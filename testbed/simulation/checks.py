"""What the simulated cluster refuses before anything runs, and how the settings of a variant of CARICO are applied."""

from __future__ import annotations

import msgspec

from carico.model.variants import Variant
from testbed.errors import UsageError
from testbed.schedulers.spec import SchedulerSpec
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import Scenario


def check(
    scenario: Scenario, scheduler: SchedulerSpec, parameters: SimulationParameters, observer: Variant | None = None
) -> None:
    """Check that a scenario can be run under a scheduler, and under the agents of `observer` beside it, if any.

    Raises
    ------
    UsageError
        If a node can never hold a pod of some job, agents cannot see what they learn from, or the scheduler's own
        back-off contradicts the parameters.
    """
    framework_parameters(scheduler, parameters)
    _check_fit(scenario, scheduler, parameters)
    _check_telemetry(scheduler.variant or observer, parameters)


def framework_parameters(scheduler: SchedulerSpec, parameters: SimulationParameters) -> SimulationParameters:
    """Return the parameters of the scheduling framework: a variant of CARICO may set the longest back-off itself.

    Raises
    ------
    UsageError
        If that back-off contradicts the parameters.
    """
    longest = None if scheduler.variant is None else scheduler.variant.backoff_max_s
    if longest is None:
        return parameters
    try:
        return msgspec.structs.replace(parameters, backoff_max_s=longest)
    except ValueError as error:
        raise UsageError(f"{scheduler.text}: {error}: change either") from error


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


def _check_telemetry(variant: Variant | None, parameters: SimulationParameters) -> None:
    """Refuse agents that cannot see what they learn from."""
    if variant is not None and parameters.telemetry == "metrics-server" and variant.cpu_metric != "utilisation":
        raise UsageError(
            f"telemetry=metrics-server knows no pressure, which variant {variant.name} learns from: "
            f"use carico:variant=utilisation-only"
        )
