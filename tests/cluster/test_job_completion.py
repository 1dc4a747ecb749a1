"""Job completion times by number of pods and request, and the cost of wrong requests (thesis §5.1, Fig 5.1, 5.2)."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.measurement.completion_times import mean_job_completion_s
from testbed.plugin.claims import not_reproduced

from .predictions import ALL, VARIANTS, cases, claim

pytestmark = pytest.mark.cluster

PI_REQUESTS = ("cpu=100m", "cpu=250m", "cpu=500m", "cpu=1000m")
SKLEARN_REQUESTS = ("memory=750Mi", "memory=1500Mi", "memory=3000Mi")
COMPARABLE = 1.10
"""The thesis calls a JCT comparable if it is within about 10 % of the best run with kube-scheduler."""
WRONG = 1.8
"""A wrong request can cost about 80 % of JCT (§5.1)."""
PODS_KILLED = 200
WITHIN = "thesis: within 10 % of the best request at every size; here "


def judge_comparable(carico_seeds, carico_paper, scenario, requests, pods, carico):
    """Judge on every seed whether CARICO's JCT is within 10 % of the best of several requests on that seed."""
    for seed in carico_seeds:
        with seed:

            def jct(scheduler, settings=None, seed=seed):
                return mean_job_completion_s(seed.run(scenario, scheduler, pods=pods, settings=settings), scenario)

            by_request = {request: jct(f"kube-scheduler:{request}") for request in requests}
            for request, seconds in by_request.items():
                carico_paper.row(f"JCT at {request}", seconds, None, "s")
            ours = jct(carico.scheduler, carico.settings)
            ratio = ours / min(by_request.values())
            carico_paper.row(f"JCT, {carico}", ours, None, "s")
            carico_paper.row(f"JCT, {carico} / best request", ratio, COMPARABLE)
            assert ratio <= COMPARABLE


@claim("§5.1, Fig 5.1", "pi's jobs take at most a tenth longer than with the best request")
@pytest.mark.parametrize(
    ("pods", "carico"),
    cases(
        (100, 250, 500, 750, 1000),
        ALL,
        missing={
            "100-thesis-rebased": f"{WITHIN}18 % above it: so small a job is "
            "mostly ramp, and a node that knows nothing offers two pods at first",
            "100-thesis-rebased-at-least-one-waiting": f"{WITHIN}21 % above it",
            "100-thesis-literal": f"{WITHIN}19 % above it",
            "100-thesis-literal-at-least-one-waiting": f"{WITHIN}19 % above it",
            "250-thesis-literal": f"{WITHIN}15 % above it",
            "250-thesis-literal-at-least-one-waiting": f"{WITHIN}25 % above it",
            "500-thesis-literal-at-least-one-waiting": f"{WITHIN}21 % above it",
            "750-thesis-literal-at-least-one-waiting": f"{WITHIN}19 % above it",
            "1000-thesis-literal-at-least-one-waiting": f"{WITHIN}19 % above it",
        },
        undecided={
            "250-thesis-rebased": f"{WITHIN}on 3 of 6 seeds, 10 % above it on average",
            "250-thesis-rebased-at-least-one-waiting": f"{WITHIN}on 2 of 6 seeds, 13 % above it on average",
            "500-thesis-literal": f"{WITHIN}on 3 of 6 seeds, 9 % above it on average",
            "750-thesis-literal": f"{WITHIN}on 5 of 6 seeds, 8 % above it on average",
            "1000-thesis-literal": f"{WITHIN}on 3 of 6 seeds, 10 % above it on average",
        },
    ),
)
def test_pi_job_completion_is_comparable(carico_seeds, carico_paper, pods, carico):
    judge_comparable(carico_seeds, carico_paper, "pi-2000", PI_REQUESTS, pods, carico)


@claim("§5.1, Fig 5.2", "sklearn's jobs take at most a tenth longer than with the best request")
@pytest.mark.parametrize(
    ("pods", "carico"),
    cases(
        (50, 100, 200),
        VARIANTS,
        missing={
            "50-thesis-rebased": f"{WITHIN}31 % above it: CARICO runs two pods at a time where 2.6 fit on a node",
            "50-thesis-literal": f"{WITHIN}30 % above it",
            "100-thesis-literal": f"{WITHIN}17 % above it",
        },
        undecided={"100-thesis-rebased": f"{WITHIN}on 3 of 6 seeds, 7 % above it on average"},
    ),
)
def test_sklearn_job_completion_is_comparable(carico_seeds, carico_paper, pods, carico):
    judge_comparable(carico_seeds, carico_paper, "sklearn", SKLEARN_REQUESTS, pods, carico)


@claim("§5.1, Fig 5.1", "a wrong request can cost 80 % of the job's completion time")
@not_reproduced("thesis: 80 %, without the request that costs it; here 41 % at 1000m, twice the best request")
def test_a_wrong_request_costs_much(carico_seeds, carico_paper):
    for seed in carico_seeds:
        with seed:
            right, wrong = (
                mean_job_completion_s(seed.run("pi-2000", f"kube-scheduler:cpu={cpu}"), "pi-2000")
                for cpu in ("500m", "1000m")
            )
            carico_paper.row("JCT at 1000m / at 500m", wrong / right, WRONG)
            assert wrong >= WRONG * right


@claim("§5.1", "with too small a memory request pods are killed and the job fails")
def test_too_little_memory_requested_gets_pods_killed(carico_seeds, carico_paper):
    """With requests below 750Mi nodes run out of memory."""
    for seed in carico_seeds:
        with seed:
            killed = {}
            for memory in ("500Mi", "750Mi"):
                (run,) = seed.run("sklearn", f"kube-scheduler:memory={memory}", pods=PODS_KILLED)
                killed[memory] = oom_kills(run)
                carico_paper.row(f"pods killed for memory at {memory}", killed[memory], None, "pods")
                if memory == "500Mi":
                    assert run.job_completion_time_s["sklearn"] is None
            assert killed["500Mi"] > killed["750Mi"] == 0


@pytest.mark.parametrize("carico", cases(VARIANTS))
def test_no_pod_is_killed_under_carico(carico_seeds, carico_paper, carico):
    """Under CARICO there is no request that could be wrong."""
    for seed in carico_seeds:
        with seed:
            killed = oom_kills(seed.run("sklearn", carico.scheduler, pods=PODS_KILLED)[0])
            carico_paper.row("pods killed for memory", killed, None, "pods")
            assert killed == 0


def oom_kills(run):
    return Counter(pod.outcome for pod in run.pods)["oom_killed"]
