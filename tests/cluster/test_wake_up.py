"""The gain from retrying refused pods as soon as a node has room; the thesis does not say when pods are retried."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s
from testbed.results.compare import compare

pytestmark = pytest.mark.cluster

CARICO = "carico"
WITHOUT, WITH = {"wake_up": False, "carico_backoff_max_s": 10.0}, {}
"""The scheduler as in the thesis, inside a kube-scheduler with the usual back-off, and as it is deployed."""
REPETITIONS = 3
"""Least repetitions: fewer pairs give no interval."""
LONG_PODS = 5
"""Least repetitions of long pods, where one pod more or less on a node changes JCT much."""
CLEARLY = -0.25
"""One round of pods instead of two would halve the time; a quarter leaves room for pods that crowd a node."""
HARM = 0.1
"""Least change that counts as harm: JCT varies by a few per cent from seed to seed."""


@pytest.fixture
def difference(carico_experiment, carico_paper):
    """A function that returns the relative change of JCT that the wake-up makes, and the verdict of the comparison."""

    def run(scenario, repetitions):
        count = max(carico_experiment.repetitions, repetitions)
        jct = {}
        for name, settings in (("without wake-up", WITHOUT), ("with wake-up", WITH)):
            measured = carico_experiment.run(scenario, CARICO, repetitions=count, settings=settings)
            jct[name] = {
                one.seed: max(mean_job_completion_s([one], job) for job in one.measured_jobs) for one in measured
            }
            mean = sum(jct[name].values()) / len(measured)
            carico_paper.row(f"JCT of {scenario}, {name}", mean, None, "s")
        delta, verdict = compare(*jct.values())
        carico_paper.row(f"JCT of {scenario}, with / without wake-up, less 1", delta, None, "", verdict)
        return delta, verdict

    return run


def test_refused_pods_need_not_wait_until_other_pods_end(difference):
    """Nodes learn while long pods run, but without the wake-up kube-scheduler retries only when a pod ends."""
    delta, verdict = difference("long-pods", LONG_PODS)
    assert verdict == "faster"
    assert delta < CLEARLY


@pytest.mark.parametrize("scenario", ["pi-2000", "sklearn", "pi-and-sklearn"])
def test_wake_up_does_no_harm_where_pods_end_often(difference, scenario):
    """kube-scheduler retries refused pods whenever a pod ends, so few pods are left to wake."""
    delta, _ = difference(scenario, REPETITIONS)
    assert delta < HARM
