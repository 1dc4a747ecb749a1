"""Job completion times against pod count and requests; what a wrong request costs (thesis §5.1, Fig 5.1, 5.2)."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.measurement.completion_times import mean_job_completion_s

pytestmark = pytest.mark.cluster

PI_REQUESTS = ("100m", "250m", "500m", "1000m")
REPETITIONS = {100: 10, 250: 4, 500: 4, 750: 2, 1000: 2}
"""At least so many of a size: where the ratio is near its limit, a single run says little."""
REBASED, LITERAL = "carico:variant=thesis-rebased", "carico:variant=thesis-literal"
COMPARABLE = 1.10
"""The thesis calls a JCT comparable that is within about 10 % of the best run with kube-scheduler."""


RAMP = (
    "thesis: within 10 % of the best request at every size; here about {percent} % above it at {pods} pods: "
    "so small a job is mostly ramp, and a node that knows nothing offers two pods a second at first"
)


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(100, marks=pytest.mark.xfail(strict=True, reason=RAMP.format(percent=14, pods=100))),
        pytest.param(250, marks=pytest.mark.xfail(strict=True, reason=RAMP.format(percent=15, pods=250))),
        500,
        750,
        1000,
    ],
)
def test_pi_job_completion_is_comparable(carico_experiment, carico_paper, pods):
    """CARICO's JCT is within 10 % of the best request's, which nobody knows in advance (Fig 5.1)."""
    repetitions = max(carico_experiment.repetitions, REPETITIONS[pods])

    def jct(scheduler, repetitions=None, pressure="kernel"):
        runs = carico_experiment.run(
            "pi-2000", scheduler, pods=pods, repetitions=repetitions, settings={"pressure": pressure}
        )
        return mean_job_completion_s(runs, "pi-2000")

    by_request = {cpu: jct(f"kube-scheduler:cpu={cpu}", repetitions) for cpu in PI_REQUESTS}
    for cpu, seconds in by_request.items():
        carico_paper.row(f"JCT of {pods} pods at {cpu}", seconds, None, "s")
    carico = jct(REBASED, repetitions)
    carico_paper.row(f"JCT of {pods} pods, thesis-rebased", carico, None, "s")
    carico_paper.row(f"JCT of {pods} pods, thesis-literal", jct(LITERAL), None, "s")
    carico_paper.row(
        f"JCT of {pods} pods, at-least-one-waiting",
        jct(REBASED, pressure="at-least-one-waiting"),
        None,
        "s",
    )
    best = min(by_request.values())
    carico_paper.row("JCT, thesis-rebased / best request", carico / best, COMPARABLE)
    assert carico <= COMPARABLE * best


def test_a_wrong_request_costs_much(carico_experiment, carico_paper):
    """A wrong request can cost about 80 % of JCT; CARICO has none to get wrong (Fig 5.1)."""
    right = mean_job_completion_s(carico_experiment.run("pi-2000", "kube-scheduler:cpu=500m"), "pi-2000")
    wrong = mean_job_completion_s(carico_experiment.run("pi-2000", "kube-scheduler:cpu=1000m"), "pi-2000")
    worse = mean_job_completion_s(carico_experiment.run("pi-2000", "kube-scheduler:cpu=2000m"), "pi-2000")
    carico_paper.row("JCT at 1000m / at 500m", wrong / right, 1.8)
    carico_paper.row("JCT at 2000m / at 500m", worse / right, 1.8)
    assert wrong > 1.25 * right
    assert worse > 1.8 * right


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(
            50,
            marks=pytest.mark.xfail(
                strict=True,
                reason="thesis: comparable to the best request at every size; here about 21 % above it at 50 pods, "
                "which CARICO runs two at a time and one after them where 2.6 fit on a node",
            ),
        ),
        100,
        200,
    ],
)
def test_sklearn_job_completion_is_comparable(carico_experiment, carico_paper, pods):
    """CARICO's JCT of memory-hungry jobs is comparable, too, without a request (Fig 5.2)."""
    repetitions = max(carico_experiment.repetitions, 8 if pods == 50 else 1)
    by_request = {
        memory: mean_job_completion_s(
            carico_experiment.run("sklearn", f"kube-scheduler:memory={memory}", pods=pods, repetitions=repetitions),
            "sklearn",
        )
        for memory in ("750Mi", "1500Mi", "3000Mi")
    }
    for memory, seconds in by_request.items():
        carico_paper.row(f"JCT of {pods} sklearn pods at {memory}", seconds, None, "s")
    carico = mean_job_completion_s(
        carico_experiment.run("sklearn", REBASED, pods=pods, repetitions=repetitions), "sklearn"
    )
    literal = mean_job_completion_s(carico_experiment.run("sklearn", LITERAL, pods=pods), "sklearn")
    carico_paper.row(f"JCT of {pods} sklearn pods, thesis-rebased", carico, None, "s")
    carico_paper.row(f"JCT of {pods} sklearn pods, thesis-literal", literal, None, "s")
    ratio = carico / min(by_request.values())
    carico_paper.row(f"JCT of {pods} sklearn pods, CARICO / best request", ratio, COMPARABLE)
    assert ratio <= COMPARABLE


def test_too_little_memory_requested_gets_pods_killed(carico_experiment, carico_paper):
    """Below 750Mi nodes run out of memory and the Job fails; CARICO kills nobody (§5.1)."""
    runs = {
        scheduler: carico_experiment.run("sklearn", scheduler, pods=200)
        for scheduler in ("kube-scheduler:memory=500Mi", "kube-scheduler:memory=750Mi", REBASED, LITERAL)
    }
    killed = {
        scheduler: sum(Counter(pod.outcome for pod in repetition.pods)["oom_killed"] for repetition in repetitions)
        for scheduler, repetitions in runs.items()
    }
    for scheduler, count in killed.items():
        carico_paper.row(f"OOM kills of 200 sklearn pods, {scheduler}", count, None, "pods")
    too_little, enough, carico, _ = killed.values()
    assert too_little > 0
    assert all(run.job_completion_time_s["sklearn"] is None for run in runs["kube-scheduler:memory=500Mi"])
    assert enough == 0
    assert carico == 0
