"""The three Kalman estimators on bursts of pods of different sizes (thesis §4.2.4, Fig 4.9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from carico.model.variants import VARIANTS
from testbed.plugin.claims import claimed, not_reproduced

pytestmark = pytest.mark.cluster

COMPARED = ("thesis-rebased", "thesis-literal")
SCENARIO = "estimator-convergence"
ESTIMATORS = ("delta", "joint", "dual")
SEEDS = 2
"""Runs over which every figure is averaged."""
SETTLED_S = 60
"""After this time every estimator has seen two bursts of different sizes."""
TRUE_SHARE = 1 / 8
"""The true cost of a pi pod as a share of the baseline: 8 pods on 4 CPUs make (utilisation + pressure) / 2 full."""
ACCURATE = 0.2
"""The thesis calls the estimates accurate and gives no figure; an error of a fifth makes one or two pods of eight. The
baseline, which an idle node shows for seconds, is held to half of this."""
OSCILLATES = 1.5
"""The thesis gives no figure for the "large oscillations" of the 2-D filter, either: 1.5 times the dual filter's would
be visible."""


@dataclass(frozen=True)
class Course:
    """Figures of an estimator, as means over the seeds."""

    error: float
    """Mean relative error of cost / baseline, from which Pod-Capacity is computed, once settled."""
    change: float
    """Mean change of cost / baseline from second to second, relative to its mean."""
    arrival_s: float
    """When cost / baseline first was within a quarter of the truth."""
    baseline_error: float
    """Mean relative error of the baseline against the signal of the idle node, between the bursts."""


def course(observe, variant, estimator, idle_drift, seeds=SEEDS) -> Course:
    """Run an estimator on the pods that kube-scheduler starts in bursts."""
    base = VARIANTS[variant]
    kalman = replace(base.kalman, idle_drift=idle_drift)
    watching = replace(base, name=estimator, estimator=estimator, kalman=kalman)
    found = []
    for seed in range(seeds):
        node = observe(SCENARIO, None, watching, seed).repetition.nodes[0]
        time_s, running = np.array(node.time_s), np.array(node.running_pods)
        cost, baseline, signal = (
            np.array(series, dtype=float) for series in (node.pod_cost, node.baseline, node.capacity_signal)
        )
        share, late = cost / baseline, time_s > SETTLED_S
        near = np.flatnonzero(np.abs(share / TRUE_SHARE - 1) < 0.25)
        idle = late & (running == 0)
        found.append(
            (
                np.mean(np.abs(share[late] / TRUE_SHARE - 1)),
                np.mean(np.abs(np.diff(share[late]))) / np.mean(share[late]),
                time_s[near[0]] if near.size else np.inf,
                np.mean(np.abs(baseline[idle] / signal[idle] - 1)),
            )
        )
    return Course(*(float(mean) for mean in np.mean(found, axis=0)))


@pytest.fixture(params=COMPARED)
def variant(request) -> str:
    return request.param


@pytest.fixture
def courses(observe, variant) -> dict[str, Course]:
    """Every estimator's course without the idle drift of §5.7, which would dominate between the bursts."""
    return {estimator: course(observe, variant, estimator, 1.0) for estimator in ESTIMATORS}


@pytest.mark.parametrize(
    "variant",
    claimed(
        COMPARED,
        {
            "thesis-literal": "thesis: all three filters find the cost of a pod; here their mean error is 0.3 to 0.4, "
            "because the unit of k changes, against 0.03 to 0.12 in units of the idle node",
        },
    ),
)
def test_cost_converges(courses, variant, observe, carico_paper):
    """Every estimator finds the cost of a pod from bursts of different sizes (Fig 4.9)."""
    for estimator, found in courses.items():
        carico_paper.row(f"{estimator}: mean error of the cost", found.error, None)
    drifting = course(observe, variant, "dual", VARIANTS[variant].kalman.idle_drift, seeds=1)
    carico_paper.row("dual: the same with the idle drift of §5.7", drifting.error, None)
    assert max(found.error for found in courses.values()) < ACCURATE


@pytest.mark.parametrize(
    "variant",
    claimed(
        COMPARED,
        {
            "thesis-literal": "thesis: joint and dual filter find the baseline; here its mean error is 0.2, because "
            "the unit of the idle node's k changes with every burst",
        },
    ),
)
def test_baseline_is_found(courses, variant, carico_paper):
    """The joint and the dual filter find the signal of the idle node; the delta filter has no baseline (Fig 4.9)."""
    for estimator in ("joint", "dual"):
        carico_paper.row(f"{estimator}: mean error of the baseline", courses[estimator].baseline_error, None)
    assert max(courses[estimator].baseline_error for estimator in ("joint", "dual")) < ACCURATE / 2


def test_the_dual_filter_converges_earlier_than_the_joint_one(courses, variant, carico_paper):
    """The dual filter converges quickly (§4.2.4): it is within a quarter of the truth before the 2-D filter is."""
    for estimator, found in courses.items():
        carico_paper.row(f"{estimator}: within 25 % of the cost after", found.arrival_s, None, "s")
    assert courses["dual"].arrival_s < courses["joint"].arrival_s


@not_reproduced(
    "thesis: the 2-D filter oscillates largely, the dual filter does not; here its cost changes 0.9 times "
    "(thesis-literal) to 1.1 times (thesis-rebased) as much from second to second",
)
def test_the_joint_filter_oscillates(courses, variant, carico_paper):
    """The 2-D filter shows large oscillations that two separate filters do not (§4.2.4)."""
    for estimator, found in courses.items():
        carico_paper.row(f"{estimator}: change of the cost per second", found.change, None)
    assert courses["joint"].change > OSCILLATES * courses["dual"].change
