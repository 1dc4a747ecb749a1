"""What the evaluation tests share: CARICO's variants under both readings of pressure, and runs with 10 Hz telemetry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carico.model.variants import THESIS_REBASED, Variant
from carico.telemetry.counters import Telemetry
from testbed.plugin.state import STATE
from testbed.providers import PROVIDERS, SIMULATED
from testbed.results.schema import Repetition
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import Scenario, load_scenario

REAL_TIMEOUT_S = 3600
"""Of a test on a real cluster. What it waits for has deadlines of its own; this lets ten repetitions end, of an attempt
each."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A folder of a provider's name has tests for it; all others need the thesis's nodes in virtual time."""
    for item in items:
        if (here := Path(__file__).parent) in item.path.parents:
            folder = item.path.relative_to(here).parts[0]
            real = folder in PROVIDERS
            item.add_marker(pytest.mark.carico(providers=[folder if real else SIMULATED]))
            if real:
                item.add_marker(pytest.mark.timeout(REAL_TIMEOUT_S * config.stash[STATE].options.attempts))


@dataclass(frozen=True)
class Prediction:
    """A way to run CARICO. Nothing is fitted to its rows, so every table shows both variants and both readings."""

    variant: str
    pressure: str

    @property
    def scheduler(self) -> str:
        return f"carico:variant={self.variant}"

    @property
    def settings(self) -> dict[str, str]:
        return {"pressure": self.pressure}


@pytest.fixture(
    params=[
        Prediction(variant, pressure)
        for variant in ("thesis-rebased", "thesis-literal")
        for pressure in ("kernel", "at-least-one-waiting")
    ],
    ids=lambda prediction: f"{prediction.variant}-{prediction.pressure}",
)
def prediction(request) -> Prediction:
    return request.param


@dataclass(frozen=True)
class Observation:
    """A run with CARICO's agents watching, and the first node's telemetry at 10 Hz."""

    repetition: Repetition
    cpu_utilisation: np.ndarray
    cpu_pressure: np.ndarray
    memory_utilisation: np.ndarray


Observe = Callable[..., Observation]


@pytest.fixture(scope="session")
def observe(carico_experiment) -> Observe:
    """Run a scenario under kube-scheduler with agents that watch and do not schedule, as in thesis §5.6."""

    known: dict[tuple[Any, ...], Observation] = {}

    def run(
        scenario: str | Scenario, pods: int | None = None, variant: Variant = THESIS_REBASED, seed: int = 0
    ) -> Observation:
        loaded = load_scenario(scenario) if isinstance(scenario, str) else scenario
        key = (loaded.name, pods, variant, seed)
        if key not in known:
            telemetry: list[Telemetry] = []
            cluster = SimulatedCluster(
                loaded.scaled(pods=pods),
                parse_spec("kube-scheduler"),
                carico_experiment.seed + seed,
                parameters_from(carico_experiment.settings),
                observer=variant,
                telemetry=telemetry,
            )
            repetition = cluster.run()
            first = [np.array([np.asarray(getattr(sample, name))[0] for sample in telemetry]) for name in _METRICS]
            known[key] = Observation(repetition, *first)
        return known[key]

    return run


_METRICS = ("cpu_utilisation", "cpu_pressure", "memory_utilisation")
