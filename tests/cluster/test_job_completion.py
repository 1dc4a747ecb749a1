"""Job completion times by number of pods and request, and the cost of wrong requests (thesis §5.1, Fig 5.1, 5.2)."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from testbed.measurement.completion_times import mean_job_completion_s
from testbed.plugin.claims import claimed

pytestmark = pytest.mark.cluster

VARIANTS = ("thesis-rebased", "thesis-literal")
PI_REQUESTS = ("100m", "250m", "500m", "1000m")
SKLEARN_REQUESTS = ("750Mi", "1500Mi", "3000Mi")
PI_PODS = (100, 250, 500, 750, 1000)
SKLEARN_PODS = (50, 100, 200)
REPETITIONS = 2
NEAR_LIMIT = {
    ("pi-2000", "thesis-rebased", 100): 10,
    ("pi-2000", "thesis-rebased", 250): 4,
    ("pi-2000", "thesis-rebased", 500): 4,
    ("sklearn", "thesis-rebased", 50): 8,
    ("sklearn", "thesis-literal", 100): 6,
}
"""Least repetitions where the ratio is near its limit."""
NOT_JUDGED = ("thesis-literal", 50)
"""50 sklearn pods take either 82 s or 102 s with this variant: on average 1.15 times the best request, with a deviation
of 0.12 between seeds. Some thirty runs would be needed to decide the claim, so this case is reported but not judged."""
COMPARABLE = 1.10
"""The thesis calls a JCT comparable if it is within about 10 % of the best run with kube-scheduler."""
WRONG = 1.8
"""A wrong request can cost about 80 % of JCT (§5.1)."""

NOT_COMPARABLE = {
    ("thesis-literal", 100): "about 50 % above it at 100 pods",
    ("thesis-literal", 250): "about 35 % above it at 250 pods",
    ("thesis-literal", 500): "about 35 % above it at 500 pods",
    ("thesis-literal", 750): "about 25 % above it at 750 pods",
    (
        "thesis-literal",
        1000,
    ): "about 30 % above it at 1000 pods: baseline and signal have different units, which makes pods look expensive",
    ("thesis-rebased", 100): "about 14 % above it at 100 pods: so small a job is mostly ramp-up, and nodes that have "
    "learned nothing yet start two pods a second",
    ("thesis-rebased", 250): "about 16 % above it at 250 pods, for the same reason as at 100",
}


def sizes(counts, not_comparable):
    """Return every variant at every size; cases that are not comparable must fail, and give the measured figure."""
    thesis = "thesis: within 10 % of the best request at every size; here "
    cases = [case for case in product(VARIANTS, counts) if case != NOT_JUDGED]
    return claimed(cases, {case: thesis + found for case, found in not_comparable.items()})


@pytest.mark.parametrize(("variant", "pods"), sizes(PI_PODS, NOT_COMPARABLE))
def test_pi_job_completion_is_comparable(carico_experiment, carico_paper, variant, pods):
    """CARICO's JCT is within 10 % of that with the best request, which is not known in advance (Fig 5.1)."""
    repetitions = max(carico_experiment.repetitions, NEAR_LIMIT.get(("pi-2000", variant, pods), REPETITIONS))

    def jct(scheduler, pressure="kernel", repetitions=repetitions):
        runs = carico_experiment.run(
            "pi-2000", scheduler, pods=pods, repetitions=repetitions, settings={"pressure": pressure}
        )
        return mean_job_completion_s(runs, "pi-2000")

    by_request = {cpu: jct(f"kube-scheduler:cpu={cpu}") for cpu in PI_REQUESTS}
    for cpu, seconds in by_request.items():
        carico_paper.row(f"JCT of {pods} pods at {cpu}", seconds, None, "s")
    carico, best = jct(f"carico:variant={variant}"), min(by_request.values())
    literal = jct(f"carico:variant={variant}", "at-least-one-waiting", repetitions=None)
    carico_paper.row(f"JCT of {pods} pods, {variant}", carico, None, "s")
    carico_paper.row(f"JCT of {pods} pods, {variant}, at-least-one-waiting", literal, None, "s")
    carico_paper.row(f"JCT, {variant} / best request", carico / best, COMPARABLE)
    assert carico <= COMPARABLE * best


def test_a_wrong_request_costs_much(carico_experiment, carico_paper):
    """A wrong request can cost about 80 % of JCT; CARICO needs no requests (Fig 5.1)."""
    jct = {
        cpu: mean_job_completion_s(carico_experiment.run("pi-2000", f"kube-scheduler:cpu={cpu}"), "pi-2000")
        for cpu in ("500m", "1000m", "2000m")
    }
    for cpu in ("1000m", "2000m"):
        carico_paper.row(f"JCT at {cpu} / at 500m", jct[cpu] / jct["500m"], WRONG)
    assert jct["500m"] < jct["1000m"] < jct["2000m"]
    assert jct["2000m"] >= WRONG * jct["500m"]


NOT_COMPARABLE_SKLEARN = {
    ("thesis-rebased", 50): "about 18 % above it at 50 pods: CARICO runs two pods on a node and then a third, where "
    "2.6 would fit at once",
}


@pytest.mark.parametrize(("variant", "pods"), sizes(SKLEARN_PODS, NOT_COMPARABLE_SKLEARN))
def test_sklearn_job_completion_is_comparable(carico_experiment, carico_paper, variant, pods):
    """CARICO's JCT of memory-hungry jobs is comparable, too (Fig 5.2)."""
    repetitions = max(carico_experiment.repetitions, NEAR_LIMIT.get(("sklearn", variant, pods), REPETITIONS))

    def jct(scheduler, repetitions=repetitions):
        runs = carico_experiment.run("sklearn", scheduler, pods=pods, repetitions=repetitions)
        return mean_job_completion_s(runs, "sklearn")

    by_request = {memory: jct(f"kube-scheduler:memory={memory}") for memory in SKLEARN_REQUESTS}
    for memory, seconds in by_request.items():
        carico_paper.row(f"JCT of {pods} sklearn pods at {memory}", seconds, None, "s")
    carico, best = jct(f"carico:variant={variant}"), min(by_request.values())
    carico_paper.row(f"JCT of {pods} sklearn pods, {variant}", carico, None, "s")
    carico_paper.row(f"JCT of {pods} sklearn pods, {variant} / best request", carico / best, COMPARABLE)
    if pods == NOT_JUDGED[1]:
        literal = jct(f"carico:variant={NOT_JUDGED[0]}", repetitions=None)
        carico_paper.row(f"JCT of {pods} sklearn pods, {NOT_JUDGED[0]}", literal, None, "s", "82 or 102 s: not judged")
    assert carico <= COMPARABLE * best


def test_requesting_too_little_memory_gets_pods_killed(carico_experiment, carico_paper):
    """With requests below 750Mi nodes run out of memory and the Job fails; under CARICO no pod is killed (§5.1)."""
    schedulers = ("kube-scheduler:memory=500Mi", "kube-scheduler:memory=750Mi")
    schedulers += tuple(f"carico:variant={variant}" for variant in VARIANTS)
    runs = {scheduler: carico_experiment.run("sklearn", scheduler, pods=200) for scheduler in schedulers}
    killed = {
        scheduler: sum(Counter(pod.outcome for pod in repetition.pods)["oom_killed"] for repetition in repetitions)
        for scheduler, repetitions in runs.items()
    }
    for scheduler, count in killed.items():
        carico_paper.row(f"OOM kills of 200 sklearn pods, {scheduler}", count, None, "pods")
    too_little, *others = killed.values()
    assert too_little > 0
    assert all(run.job_completion_time_s["sklearn"] is None for run in runs["kube-scheduler:memory=500Mi"])
    assert others == [0, 0, 0]
