"""Shared by the evaluation tests: CARICO's variants with both readings of pressure, and runs with 10 Hz telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carico.model.variants import THESIS_REBASED, Variant
from carico.telemetry.counters import Telemetry
from testbed.plugin.state import state_of
from testbed.providers import PROVIDERS, SIMULATED
from testbed.results.schema import USAGE, Repetition
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import Scenario, load_scenario

REAL_TIMEOUT_S = 3600
"""Time limit of a test on a real cluster: enough for ten repetitions with one attempt each. Waits within a test have
their own deadlines."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the tests in a provider's folder on that provider, and all others on the simulated cluster."""
    for item in items:
        if (here := Path(__file__).parent) in item.path.parents:
            folder = item.path.relative_to(here).parts[0]
            real = folder in PROVIDERS
            item.add_marker(pytest.mark.carico(providers=[folder if real else SIMULATED]))
            if real:
                item.add_marker(pytest.mark.timeout(REAL_TIMEOUT_S * state_of(config).options.attempts))


@dataclass(frozen=True)
class Observation:
    """A run observed by CARICO's agents, and the first node's telemetry at 10 Hz."""

    repetition: Repetition
    cpu_utilisation: np.ndarray
    cpu_pressure: np.ndarray
    memory_utilisation: np.ndarray


Observe = Callable[..., Observation]


@pytest.fixture(scope="session")
def observe(carico_experiment) -> Observe:
    """Return a function that runs a scenario under kube-scheduler while agents only observe, as in thesis §5.6."""

    known: dict[tuple[Any, ...], Observation] = {}

    def run(
        seed: int,
        scenario: str | Scenario,
        pods: int | None = None,
        variant: Variant = THESIS_REBASED,
        settings: Mapping[str, Any] | None = None,
    ) -> Observation:
        loaded = load_scenario(scenario) if isinstance(scenario, str) else scenario
        key = (loaded.name, pods, variant, seed, str(settings))
        if key not in known:
            telemetry: list[Telemetry] = []
            cluster = SimulatedCluster(
                loaded.scaled(pods=pods),
                parse_spec("kube-scheduler"),
                seed,
                parameters_from({**carico_experiment.settings, **(settings or {})}),
                observer=variant,
                telemetry=telemetry,
            )
            repetition = cluster.run()
            first = [np.array([np.asarray(getattr(sample, name))[0] for sample in telemetry]) for name in USAGE]
            known[key] = Observation(repetition, *first)
        return known[key]

    return run
