"""The dual Kalman filter on real telemetry: bursts of pods of different sizes (thesis §4.2.4, Fig 4.9)."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.results.schema import Repetition

from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

SETTLED_S = 22.0
"""Time at which the first burst is over."""
ACCURATE = 0.2
"""As in tests/cluster/test_estimators.py; baselines are held to half of it."""
LEAST = 3
"""Least repetitions: a single one has only a dozen idle seconds after a burst, and its median was 0.02 to 0.11."""

DEPLOYED = pytest.mark.parametrize("filters", ["dual"])
"""The filters of deployed agents."""


@pytest.fixture
def runs(carico_experiment) -> list[Repetition]:
    return carico_experiment.run(
        "bursts-two-nodes", "kube-scheduler", repetitions=max(LEAST, carico_experiment.repetitions)
    )


def columns(runs: list[Repetition]) -> dict[str, np.ndarray]:
    """Return the telemetry of the first node in all repetitions, without seconds in which its agent did not answer."""
    names = ("time_s", "running_pods", "capacity_signal", "baseline", "pod_cost")
    seconds = (row for run in runs for row in zip(*(getattr(run.nodes[0], name) for name in names), strict=True))
    rows = [row for row in seconds if None not in row]
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


def test_every_pod_completes_once(runs):
    for run in runs:
        every_pod_completed_once(run)


@pytest.mark.carico_claim("§4.2.4, Fig 4.9", "the 2-D filter and the dual filter find the baseline")
@DEPLOYED
def test_baseline_is_the_signal_of_the_idle_node(runs, carico_paper, filters):
    series = columns(runs)
    idle = (series["running_pods"] == 0) & (series["time_s"] > SETTLED_S)
    errors = np.abs(series["baseline"] / series["capacity_signal"] - 1)[idle]
    carico_paper.row(f"{filters}: median error of the baseline, idle after a burst", float(np.median(errors)), None)
    assert np.median(errors) < ACCURATE / 2


@pytest.mark.carico_claim("§4.2.4, Fig 4.9", "all three filters find a pod's cost")
@DEPLOYED
def test_cost_explains_the_signal_of_a_loaded_node(runs, carico_paper, filters):
    """The baseline minus the pods' cost is the measured signal, in bursts of sizes not seen before."""
    series = columns(runs)
    loaded = (series["running_pods"] > 0) & (series["time_s"] > SETTLED_S)
    baseline, signal = series["baseline"][loaded], series["capacity_signal"][loaded]
    explained = baseline - (series["pod_cost"] * series["running_pods"])[loaded]
    with_cost, without = (float(np.median(np.abs(value - signal) / baseline)) for value in (explained, baseline))
    carico_paper.row(f"{filters}: median error of the baseline alone, of the baseline", without, None)
    carico_paper.row(f"{filters}: median error of baseline - cost × pods, of the baseline", with_cost, None)
    assert with_cost < ACCURATE < without
