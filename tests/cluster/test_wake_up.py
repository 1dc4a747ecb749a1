"""What it gives to try refused pods again when a node has got room; no claim of the thesis, which does not say when."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s
from testbed.results.compare import compare

pytestmark = pytest.mark.cluster

CARICO = "carico"
WITHOUT, WITH = {"wake_up": False, "carico_backoff_max_s": 10.0}, {}
"""The scheduler as in the thesis, inside a kube-scheduler with the usual back-off, and as it is deployed."""
REPETITIONS = 3
"""At least so many: fewer pairs have no interval."""
LONG_PODS = 5
"""The same where one pod more or less on a node changes much."""
CLEARLY = -0.25
"""Two rounds of pods against one would be half the time; a quarter leaves room for pods that crowd a node."""
HARM = 0.1
"""What counts as harm: from seed to seed JCT varies by a few per cent."""


@pytest.fixture
def difference(carico_experiment, carico_paper):
    """By what share a scenario takes longer with the wake-up than without, and whether that is sure."""

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


def test_pods_that_were_refused_before_nodes_learned_do_not_wait_for_others_to_end(difference):
    """What nodes learn while long pods run is no event: without the wake-up the first that ends is."""
    delta, verdict = difference("long-pods", LONG_PODS)
    assert verdict == "faster"
    assert delta < CLEARLY


@pytest.mark.parametrize("scenario", ["pi-2000", "sklearn", "pi-and-sklearn"])
def test_it_does_no_harm_where_pods_end_all_the_time(difference, scenario):
    """Every pod that ends is an event, so that there is little left to wake."""
    delta, _ = difference(scenario, REPETITIONS)
    assert delta < HARM
