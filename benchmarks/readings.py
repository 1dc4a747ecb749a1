"""Measures what each interpretation of the thesis changes: one parameter of CARICO or of the simulator at a time.

Fills the tables of `docs/design.md`. Figures are pod and job completion times, seconds, with seeds 2001, 2002, ...
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.common import parse, parser, report
from carico.arrays import BoolArray, FloatArray, IntArray
from carico.model.aggregator import Aggregator
from carico.model.estimators import DualKalman
from carico.model.node_model import NodeModel
from carico.model.subspace import Subspace
from carico.model.variants import THESIS_LITERAL, THESIS_REBASED, UTILISATION_ONLY, Variant
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.utilisation import median_between
from testbed.results.schema import Repetition
from testbed.schedulers.spec import CaricoSpec, SchedulerSpec, parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from testbed.simulation.schedulers.carico import CaricoScheduler
from workloads.scenario import load_scenario

SCENARIOS = ("pi-2000", "sklearn", "pi-and-sklearn")
KUBE_ROWS = (
    ("pi_100m", "pi-2000", "kube-scheduler:cpu=100m"),
    ("pi_500m", "pi-2000", "kube-scheduler:cpu=500m"),
    ("sklearn_750mi", "sklearn", "kube-scheduler:memory=750Mi"),
    ("mixed", "pi-and-sklearn", "kube-scheduler"),
)
PEERS: dict[str, Callable[[float], bool]] = {
    "conflicting-capacity": lambda change: change < 0.8,
    "complementary-capacity": lambda change: change > 1.2,
}
"""Scenarios in which a node learns about its peers' workload, with the change of its signal that shows this.

The peers' job is published at 30 s and takes about 100 s. As in the evaluation, a change by a fifth counts.
"""
LITERAL_WEIGHTS = (0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
"""Weights of a new batch to try with the thesis as written, which gives no value."""
FIRST_SEED = 2001


def carico_readings() -> Iterator[tuple[str, Variant]]:
    """Yield the variants to compare, each with a label that says what differs."""
    base = THESIS_REBASED
    yield "default", base
    yield "literal_unit", THESIS_LITERAL
    yield "utilisation_only", UTILISATION_ONLY
    changes: dict[str, tuple[Any, ...]] = {
        "batch_weight": (0.05, 0.2),
        "global_weight": (0.0, 0.9),
        "workload_exponent": (0.5,),
        "alpha_slow": (0.05, 0.3),
        "change_patience": (1, 10),
        "hold_off_s": (0.3, 0.5, 2.0),
        "exchange_age_s": (1.0, math.inf),
        "idle_memory": (0.0, 0.99),
        "estimator": ("delta", "joint"),
    }
    yield from _one_at_a_time(base, changes)
    noises: dict[str, tuple[float, ...]] = {
        "cost_process_noise": (1e-5, 1e-3, 1e-2),
        "cost_prior": (0.1,),
        "initial_cost": (0.3, 0.45, 0.55, 0.7),
        "cost_floor": (0.01,),
        "cost_limit": (0.99,),
        "full_signal": (1e-9,),
        "idle_drift": (1.0, 1.05),
    }
    for name, factors in noises.items():
        for factor in factors:
            kalman = replace(base.kalman, **{name: factor})
            yield f"{name}={factor}", replace(base, kalman=kalman)


def peer_readings(base: Variant) -> Iterator[tuple[str, Variant]]:
    """Yield variants of `base` that differ in how a node uses its peers' experience."""
    yield "default", base
    changes: dict[str, tuple[Any, ...]] = {
        "global_weight": (0.0, 0.9),
        "exchange_age_s": (math.inf,),
        "batch_weight": (0.005, 0.01, 0.05, 0.2),
        "workload_exponent": (0.5,),
    }
    yield from _one_at_a_time(base, changes)


def _one_at_a_time(base: Variant, changes: dict[str, tuple[Any, ...]]) -> Iterator[tuple[str, Variant]]:
    for name, values in changes.items():
        for value in values:
            yield f"{name}={value}", replace(base, **{name: value})


def _baseline_from_all_samples(self: DualKalman, learning: BoolArray, k: FloatArray, n: FloatArray) -> None:
    """Correct the baseline while pods run, too, after adding their cost to the signal."""
    correct = _ORIGINAL_CORRECT
    correct(self, learning, k, n)
    busy = learning & (n > 0)
    cost = {name: self._state[name] for name in ("cost", "cost_variance")}
    correct(self, busy, np.where(busy, k + self._state["cost"] * n, k), np.zeros_like(n))
    self._set(busy, **cost)


def _fed_back(self: NodeModel, own: Subspace, index: IntArray) -> Subspace:
    """Keep the merge with the aggregate in the node's own subspace."""
    merged = _ORIGINAL_BLEND(self, own, index)
    rank = self._own_values.shape[-1]
    self._own_basis[index] = merged.basis[..., :rank]
    self._own_values[index] = merged.singular_values[..., :rank]
    return merged


_ORIGINAL_CORRECT = DualKalman._correct
_ORIGINAL_BLEND = NodeModel._blend

REPLACED: tuple[tuple[str, type, str, Any], ...] = (
    ("the merge with the aggregate fed back", NodeModel, "_blend", _fed_back),
    (
        "γ itself as the factor of aggregation, no root (renormalised)",
        Aggregator,
        "nodes",
        property(lambda self: (len(self._nodes) - 1) ** 2 + 1),
    ),
    ("baseline from all samples", DualKalman, "_correct", _baseline_from_all_samples),
    ("a reservation that ends with the binding", CaricoScheduler, "pod_bound", CaricoScheduler.pod_running),
)
"""Interpretations without a parameter, because the alternative is useless: label, class, attribute and replacement."""

SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("idle memory that does not fluctuate", {"background_memory_variation": 0.0}),
    ("one process for a container's start", {"burst_processes": 1}),
    ("no wake-up, back-off up to 10 s", {"wake_up": False, "carico_backoff_max_s": 10.0}),
    ("pod events from the Kubernetes API", {"pod_events": "kubernetes"}),
    ("30 % of samples lost", {"sample_loss": 0.3}),
    ("30 % of samples late", {"sample_late": 0.3}),
)

SIMULATOR_READINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("default", {}),
    ("pod_creations_per_s=100", {"pod_creations_per_s": 100, "bindings_per_s": 100}),
    ("background_cores_per_pod=0", {"background_cores_per_pod": 0}),
    ("starts_per_s=1.5", {"starts_per_s": 1.5}),
    ("start_cpu_s=0", {"start_cpu_s": 0, "stop_cpu_s": 0}),
    ("system_weight=39", {"system_weight": 39}),
    ("host_limit=0.9", {"host_limit": 0.9}),
    ("host_limit=0.8", {"host_limit": 0.8}),
)


def main() -> None:
    """Run the study."""
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=2, metavar="N", help="seeds per figure (default: 2)")
    arguments.add_argument("--pressure", default="kernel", choices=["kernel", "at-least-one-waiting"])
    options = parse(arguments)
    report("readings", study(options), options.json)


def study(arguments: argparse.Namespace) -> dict[str, float]:
    """Return all figures and print them as four tables."""
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.repetitions)
    pressure = {"pressure": arguments.pressure}
    figures: dict[str, float] = {}
    print("| reading | pi PCT, JCT | sklearn PCT, JCT | mixed pi, sklearn PCT, JCT |\n|---|---|---|---|")

    def carico_row(label: str, variant: Variant, settings: dict[str, Any]) -> None:
        spec, settings = CaricoSpec(label, variant), pressure | settings
        cells = [
            _measure(figures, label, row=scenario, scenario=scenario, spec=spec, seeds=seeds, settings=settings)
            for scenario in SCENARIOS
        ]
        print(f"| {label} | {' | '.join(cells)} |", flush=True)

    def signal_row(label: str, variant: Variant) -> None:
        print(f"| {label} | {' | '.join(_signals(figures, label, variant, seeds))} |", flush=True)

    for label, variant in carico_readings():
        carico_row(label, variant, {})
    for label, owner, attribute, replacement in REPLACED:
        with patch.object(owner, attribute, replacement):
            carico_row(label, THESIS_REBASED, {})
    for label, settings in SETTINGS:
        carico_row(label, THESIS_REBASED, settings)
    print("\n| reading | conflicting: k before → during | complementary: k before → during |\n|---|---|---|")
    for base in (THESIS_REBASED, THESIS_LITERAL):
        for label, variant in peer_readings(base):
            signal_row(f"{base.name} {label}", variant)
        for label, owner, attribute, replacement in REPLACED[:2]:
            with patch.object(owner, attribute, replacement):
                signal_row(f"{base.name} {label}", base)
    print("\n| weight | pi PCT, JCT | conflicting | complementary |\n|---|---|---|---|")
    for weight in LITERAL_WEIGHTS:
        label, variant = f"literal_weight={weight}", replace(THESIS_LITERAL, batch_weight=weight)
        spec = CaricoSpec(label, variant)
        pi = _measure(figures, label, row="pi-2000", scenario="pi-2000", spec=spec, seeds=seeds, settings=pressure)
        print(f"| {weight} | {pi} | {' | '.join(_signals(figures, label, variant, seeds))} |", flush=True)
    print("\n| reading | 100m | 500m | 750Mi | mixed |\n|---|---|---|---|---|")
    for label, settings in SIMULATOR_READINGS:
        cells = [
            _measure(figures, label, row=row, scenario=scenario, spec=parse_spec(text), seeds=seeds, settings=settings)
            for row, scenario, text in KUBE_ROWS
        ]
        print(f"| {label} | {' | '.join(cells)} |", flush=True)
    return figures


def _measure(
    figures: dict[str, float],
    label: str,
    *,
    row: str,
    scenario: str,
    spec: SchedulerSpec,
    seeds: range,
    settings: dict[str, Any],
) -> str:
    runs = [SimulatedCluster(load_scenario(scenario), spec, seed, parameters_from(settings)).run() for seed in seeds]
    cell = []
    for job in runs[0].job_completion_time_s:
        pct = [time for run in runs for time in pod_completion_times(run.pods, job)]
        mean = sum(pct) / len(pct) if pct else math.nan
        if pct:
            figures[f"{row}:{label}:{job}_pct_s"] = round(mean, 3)
        cell.append(f"{mean:.1f}" if pct else "none succeeds")
    jct = sum(_latest(run) for run in runs) / len(runs)
    figures[f"{row}:{label}:jct_s"] = round(jct, 3)
    failed = sum(None in run.job_completion_time_s.values() for run in runs)
    return f"{' / '.join(cell)}, {jct:.0f}" + (f" ({failed} of {len(runs)} did not complete)" if failed else "")


def _signals(figures: dict[str, float], label: str, variant: Variant, seeds: range) -> list[str]:
    """Measure the signal of the node without the peers' job, shortly before that job and in the middle of it."""
    spec = CaricoSpec(label, variant)
    cells = []
    for scenario, shows in PEERS.items():
        nodes = [
            SimulatedCluster(load_scenario(scenario), spec, seed, parameters_from({})).run().nodes[0] for seed in seeds
        ]
        before, during = (
            np.array([median_between(node, "capacity_signal", *span) for node in nodes])
            for span in ((22, 30), (70, 90))
        )
        shown = sum(map(shows, (during / before).tolist()))
        figures[f"{scenario}:{label}:k_before_workloads"] = round(float(before.mean()), 4)
        figures[f"{scenario}:{label}:k_during_workloads"] = round(float(during.mean()), 4)
        figures[f"{scenario}:{label}:shown_seeds"] = shown
        cells.append(f"{before.mean():.2f} → {during.mean():.2f} ({shown}/{len(seeds)})")
    return cells


def _latest(run: Repetition) -> float:
    """Return when the last job completed, or the time limit if a job did not complete."""
    completed = [seconds for seconds in run.job_completion_time_s.values() if seconds is not None]
    return max(completed) if len(completed) == len(run.job_completion_time_s) else run.nodes[0].time_s[-1]


if __name__ == "__main__":
    main()
