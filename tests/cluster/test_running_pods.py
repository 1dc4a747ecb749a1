"""Running pods per node and resource utilisation while jobs run (thesis §5.2, §5.3, Fig 5.3 to 5.6)."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s
from testbed.measurement.utilisation import cluster_mean, running_pods, time_to_utilisation

from .predictions import VARIANTS, cases, claim

pytestmark = pytest.mark.cluster

RIGHT, LOW_MEMORY = "kube-scheduler:cpu=500m", "kube-scheduler:memory=750Mi"
SIMILAR = 0.3
"""The figure shows bands of running pods that overlap; a difference of less than a third counts as similar."""
FULL = 0.95
"""The utilisation that the thesis regards as full (§5.3)."""
TWICE = 2.0
SKLEARN_PODS = 200
"""The number of pods in the trace of Fig 5.6."""


def plateau(run) -> slice:
    """Return the middle half of the run, without ramp and tail."""
    seconds = len(run.nodes[0].time_s)
    return slice(seconds // 4, 3 * seconds // 4)


def mean_running(run) -> float:
    return float(running_pods(run)[:, plateau(run)].mean())


def mean_of(run, resource) -> float:
    return float(cluster_mean(run.nodes, resource)[plateau(run)].mean())


@claim("§5.2, Fig 5.3", "nodes run about as many pods as with the best request")
@pytest.mark.parametrize(
    "carico", cases(VARIANTS, missing={"thesis-literal": "thesis: similar to 500m; here 0.6 times as many"})
)
def test_carico_runs_as_many_pods_as_the_best_request(carico_seeds, carico_paper, carico):
    for seed in carico_seeds:
        with seed:
            right, ours = (mean_running(seed.run("pi-2000", one)[0]) for one in (RIGHT, carico.scheduler))
            carico_paper.row("pi-2000 pods per node, 500m", right, None, "pods")
            carico_paper.row(f"pi-2000 pods per node, {carico}", ours, None, "pods")
            carico_paper.row(f"pods per node, {carico} / 500m", ours / right, None)
            assert ours == pytest.approx(right, rel=SIMILAR)


@claim("§5.3, Fig 5.5", "CPU utilisation is consistently high")
@pytest.mark.parametrize(
    "carico", cases(VARIANTS, missing={"thesis-literal": "thesis: 0.95 and more; here 0.92 in mid-job"})
)
def test_carico_keeps_cpus_busy(carico_seeds, carico_paper, carico):
    for seed in carico_seeds:
        with seed:
            cpu = mean_of(seed.run("pi-2000", carico.scheduler)[0], "cpu_utilisation")
            carico_paper.row(f"CPU utilisation in mid-job, {carico}", cpu, 1.0)
            assert cpu > FULL


@claim("§5.3, Fig 5.5", "it takes more than twice as long to fill the CPUs")
@pytest.mark.parametrize(
    "carico",
    cases(
        VARIANTS,
        missing={
            "thesis-rebased": "thesis: more than twice as long as with 500m; here 1.25 times (5 s against 4 s), since "
            "pods come at the 20 a second of kube-controller-manager's client under either scheduler",
            "thesis-literal": "thesis: more than twice as long as with 500m; here 1.3 times",
        },
    ),
)
def test_carico_takes_longer_to_fill_the_cluster(carico_seeds, carico_paper, carico):
    """The time until the nodes' mean CPU utilisation reaches 95 %."""
    for seed in carico_seeds:
        with seed:
            kube, ours = (time_to_utilisation(seed.run("pi-2000", one)[0].nodes) for one in (RIGHT, carico.scheduler))
            if kube is None or ours is None:
                pytest.fail("95 % CPU was not reached")  # no answer to the question of the claim
            carico_paper.row(f"time to 95 % CPU, {carico}", ours, None, "s")
            carico_paper.row(f"time to 95 % CPU, {carico} / 500m", ours / kube, TWICE)
            assert ours > TWICE * kube


@claim("§5.2, Fig 5.4", "nodes run fewer sklearn pods than with the best request")
@pytest.mark.parametrize("carico", cases(VARIANTS))
def test_carico_runs_fewer_sklearn_pods(carico_seeds, carico_paper, carico):
    for seed in carico_seeds:
        with seed:
            kube, ours = (mean_running(seed.run("sklearn", one)[0]) for one in (LOW_MEMORY, carico.scheduler))
            carico_paper.row("sklearn pods per node, 750Mi", kube, None, "pods")
            carico_paper.row(f"sklearn pods per node, {carico}", ours, None, "pods")
            assert ours < kube


@claim("§5.2, Fig 5.4", "nodes occasionally run no sklearn pod while others wait")
@pytest.mark.parametrize("carico", cases(VARIANTS))
def test_nodes_occasionally_run_no_sklearn_pod(carico_seeds, carico_paper, carico):
    """Some nodes run no pod in the middle half of the job."""
    for seed in carico_seeds:
        with seed:
            (run,) = seed.run("sklearn", carico.scheduler)
            idle = (running_pods(run)[:, plateau(run)] == 0).mean()
            carico_paper.row(f"share of time that a node runs no pod, {carico}", float(idle), None)
            assert idle > 0


@claim("§5.2", "sklearn's job takes longer than with the best request")
@pytest.mark.parametrize(
    "carico",
    cases(VARIANTS, undecided={"thesis-rebased": "thesis: longer; here on 4 of 6 seeds, 1.06 times on average"}),
)
def test_sklearn_job_takes_longer(carico_seeds, carico_paper, carico):
    """The job is that of Fig 5.4 and Table 5.2; the thesis does not say how much longer it takes."""
    for seed in carico_seeds:
        with seed:
            kube, ours = (
                mean_job_completion_s(seed.run("sklearn", one), "sklearn") for one in (LOW_MEMORY, carico.scheduler)
            )
            carico_paper.row(f"JCT of sklearn, {carico} / 750Mi", ours / kube, None)
            assert ours > kube


@claim("§5.3, Fig 5.6", "sklearn's job uses less of the cluster")
@pytest.mark.parametrize(("resource", "carico"), cases(("cpu", "memory"), VARIANTS))
def test_sklearn_uses_less(carico_seeds, carico_paper, resource, carico):
    for seed in carico_seeds:
        with seed:
            kube, ours = (
                mean_of(seed.run("sklearn", one, pods=SKLEARN_PODS)[0], f"{resource}_utilisation")
                for one in (LOW_MEMORY, carico.scheduler)
            )
            carico_paper.row(f"{resource} utilisation, 750Mi", kube, None)
            carico_paper.row(f"{resource} utilisation, {carico}", ours, None)
            assert ours < kube
