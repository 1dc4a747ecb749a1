"""The three Kalman estimators on bursts of pods of different sizes (thesis §4.2.4, Fig 4.9)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from carico.variants import THESIS_REBASED

pytestmark = pytest.mark.cluster

SCENARIO = "estimator-convergence"
SETTLED_S = 60
"""After this time every estimator has seen two bursts of different sizes."""


def share_of_idle(observation):
    """Cost as a share of the baseline over time: the number that Pod-Capacity is made of."""
    node = observation.repetition.nodes[0]
    cost, baseline = np.array(node.pod_cost, dtype=float), np.array(node.baseline, dtype=float)
    return np.array(node.time_s), cost / baseline


@pytest.fixture(scope="module")
def courses(observe):
    """Cost / baseline over time, by estimator."""
    # Without the drift of an idle node's cost (§5.7), which would be all that is seen between the bursts.
    kalman = replace(THESIS_REBASED.kalman, idle_drift=1.0)
    variants = {
        name: replace(THESIS_REBASED, name=name, estimator=name, kalman=kalman) for name in ("delta", "joint", "dual")
    }
    return {name: share_of_idle(observe(SCENARIO, None, variant)) for name, variant in variants.items()}


TRUE_SHARE = 1 / 8
"""A pi pod keeps one of 4 CPUs busy; (utilisation + pressure) / 2 is full at 8 of them, so a pod costs an eighth."""


@pytest.mark.parametrize("name", ["delta", "joint", "dual"])
def test_cost_converges(courses, carico_paper, name):
    """Every estimator finds the cost of a pod from bursts of different sizes (Fig 4.9)."""
    time_s, share = courses[name]
    late = share[time_s > SETTLED_S]
    error = float(np.mean(np.abs(late - TRUE_SHARE)) / TRUE_SHARE)
    carico_paper.row(f"{name}: mean cost / baseline after {SETTLED_S} s", float(late.mean()), None)
    carico_paper.row(f"{name}: mean error of the cost", error, None)
    assert error < 0.2


def test_the_dual_filter_converges_earlier_than_the_joint_one(courses, carico_paper):
    """The dual filter converges quickly (§4.2.4): it is within a quarter of the truth before the 2-D filter is."""
    arrival = {}
    for name, (time_s, share) in courses.items():
        near = np.flatnonzero(np.abs(share / TRUE_SHARE - 1) < 0.25)
        assert near.size, f"{name} never came near the cost"
        arrival[name] = float(time_s[near[0]])
        carico_paper.row(f"{name}: within 25 % of the cost after", arrival[name], None, "s")
    assert arrival["dual"] < arrival["joint"]


def oscillation(course) -> float:
    """Mean change of the estimate from second to second, relative to its mean."""
    time_s, share = course
    late = share[time_s > SETTLED_S]
    return float(np.mean(np.abs(np.diff(late))) / late.mean())


def test_the_dual_filter_oscillates_less_than_the_joint_one(courses, carico_paper):
    """Two separate filters are stable where the 2-D filter oscillates (§4.2.4)."""
    found = {name: oscillation(course) for name, course in courses.items()}
    for name, value in found.items():
        carico_paper.row(f"{name}: change of the cost per second / cost", value, None)
    assert found["dual"] < found["joint"]
