"""Running pods per node and resource utilisation while jobs run (thesis §5.2, §5.3, Fig 5.3 to 5.6)."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.measurement.utilisation import cluster_mean, running_pods, time_to_utilisation

pytestmark = pytest.mark.cluster

REBASED, LITERAL = "carico:variant=thesis-rebased", "carico:variant=thesis-literal"


def plateau(repetition) -> slice:
    """The middle half of the run, away from ramp and tail."""
    seconds = len(repetition.nodes[0].time_s)
    return slice(seconds // 4, 3 * seconds // 4)


def mean_running(repetitions) -> float:
    return float(np.mean([running_pods(run)[:, plateau(run)].mean() for run in repetitions]))


def mean_cpu(repetitions) -> float:
    return float(np.mean([cluster_mean(run.nodes, "cpu_utilisation")[plateau(run)].mean() for run in repetitions]))


def test_carico_runs_as_many_pods_as_the_best_request(carico_experiment, carico_paper):
    """Too low a request packs many pods on a node; CARICO holds about as many as 500m does (Fig 5.3)."""
    schedulers = ("kube-scheduler:cpu=100m", "kube-scheduler:cpu=500m", REBASED, LITERAL)
    running = {scheduler: mean_running(carico_experiment.run("pi-2000", scheduler)) for scheduler in schedulers}
    for scheduler, pods in running.items():
        carico_paper.row(f"pi-2000 pods running per node, {scheduler}", pods, None, "pods")
    low, right, rebased, _ = running.values()
    # 38 slots against 7; and 7 pods at most against what the thesis's figure shows as a similar band.
    assert low > 3 * right
    assert rebased == pytest.approx(right, rel=0.3)


@pytest.mark.parametrize("scheduler", ["kube-scheduler:cpu=100m", "kube-scheduler:cpu=500m", REBASED])
def test_cpu_is_busy_throughout_a_cpu_bound_job(carico_experiment, carico_paper, scheduler):
    """kube-scheduler reaches about 100 % CPU at either request, CARICO is consistently high (Fig 5.5)."""
    cpu = mean_cpu(carico_experiment.run("pi-2000", scheduler))
    carico_paper.row(f"CPU utilisation in mid-job, {scheduler}", cpu, 1.0)
    if scheduler == REBASED:
        literal = mean_cpu(carico_experiment.run("pi-2000", LITERAL))
        carico_paper.row(f"CPU utilisation in mid-job, {LITERAL}", literal, 1.0)
    assert cpu > 0.95


@pytest.mark.xfail(
    strict=True,
    reason="thesis: CARICO takes more than twice as long as 500m to reach 95 % CPU; here about 1.3 times as long "
    "(5 to 6 s against 4 s), and 1.7 times if pods are created ten times faster",
)
def test_carico_takes_longer_to_fill_the_cluster(carico_experiment, carico_paper):
    """CARICO takes more than twice as long to reach 95 % CPU (§5.3)."""
    seconds = {}
    for scheduler in ("kube-scheduler:cpu=500m", REBASED):
        times = [time_to_utilisation(run.nodes) for run in carico_experiment.run("pi-2000", scheduler)]
        assert None not in times, f"95 % CPU was not reached under {scheduler}"
        seconds[scheduler] = float(np.mean(times))
        carico_paper.row(f"time to 95 % CPU, {scheduler}", seconds[scheduler], None, "s")
    kube, carico = seconds.values()
    carico_paper.row("time to 95 % CPU, CARICO / 500m", carico / kube, 2.0)
    assert carico > 2 * kube


def test_carico_runs_fewer_sklearn_pods_at_once(carico_experiment, carico_paper):
    """CARICO runs fewer sklearn pods per node and uses less of the cluster (Fig 5.4, 5.6)."""
    used = {}
    for scheduler in ("kube-scheduler:memory=750Mi", REBASED, LITERAL):
        runs = carico_experiment.run("sklearn", scheduler, pods=200)
        memory = float(np.mean([cluster_mean(run.nodes, "memory_utilisation")[plateau(run)].mean() for run in runs]))
        used[scheduler] = (mean_running(runs), mean_cpu(runs), memory)
        for what, ours, unit in zip(
            ("pods running", "CPU utilisation", "memory utilisation"), used[scheduler], ("pods", "", ""), strict=True
        ):
            carico_paper.row(f"sklearn {what}, {scheduler}", ours, None, unit)
    kube, rebased, _ = used.values()
    assert rebased[0] < kube[0]
    assert kube[1] > 0.95
    assert rebased[2] < kube[2]
