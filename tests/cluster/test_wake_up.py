"""The gain from retrying refused pods as soon as a node has room; the thesis does not say when pods are retried."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s

pytestmark = pytest.mark.cluster

AS_IN_THE_THESIS = {"wake_up": False, "carico_backoff_max_s": 10.0}
"""The scheduler inside a kube-scheduler with its usual back-off; without these settings it is as deployed."""
CLEARLY = -0.25
"""One round of pods instead of two would halve the time; a quarter allows for nodes with too many pods."""
HARM = 0.1
"""The least change that counts as harm: JCT varies by a few per cent from seed to seed."""


def difference(seed, carico_paper, scenario):
    """Return the share by which a scenario takes longer with the wake-up than without."""
    without, woken = (
        max(mean_job_completion_s(runs, job) for job in runs[0].measured_jobs)
        for runs in (seed.run(scenario, "carico", settings=AS_IN_THE_THESIS), seed.run(scenario, "carico"))
    )
    carico_paper.row(f"JCT of {scenario} without wake-up", without, None, "s")
    carico_paper.row(f"JCT of {scenario} with wake-up", woken, None, "s")
    carico_paper.row("with / without wake-up, less 1", woken / without - 1, None)
    return woken / without - 1


def test_pods_that_were_refused_before_nodes_learned_do_not_wait_for_others_to_end(carico_seeds, carico_paper):
    """What nodes learn while long pods run is no cluster event; without the wake-up, the first end of a pod is one."""
    for seed in carico_seeds:
        with seed:
            assert difference(seed, carico_paper, "long-pods") < CLEARLY


@pytest.mark.parametrize("scenario", ["pi-2000", "sklearn", "pi-and-sklearn"])
def test_it_does_no_harm_where_pods_end_all_the_time(carico_seeds, carico_paper, scenario):
    """Every pod that ends is an event, so that few pods are left to be woken."""
    for seed in carico_seeds:
        with seed:
            assert difference(seed, carico_paper, scenario) < HARM
