"""Running pods per node and resource utilisation while jobs run (thesis §5.2, §5.3, Fig 5.3 to 5.6)."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.measurement.utilisation import cluster_mean, running_pods, time_to_utilisation
from testbed.plugin.claims import claimed

pytestmark = pytest.mark.cluster

VARIANTS = ("thesis-rebased", "thesis-literal")
SIMILAR = 0.3
"""The figure shows overlapping bands of running pods; a difference of up to 30 % counts as similar."""
REPETITIONS = 3
"""Least repetitions for comparisons of variants: running pods vary by 5 % from seed to seed."""
RAMP = "thesis: CARICO takes more than twice as long as 500m to reach 95 % CPU"
FULL = 0.95
"""The utilisation that the thesis calls a full CPU (§5.3)."""


def plateau(repetition) -> slice:
    """Return the middle half of the run, away from ramp and tail."""
    seconds = len(repetition.nodes[0].time_s)
    return slice(seconds // 4, 3 * seconds // 4)


def pi_runs(carico_experiment, scheduler):
    return carico_experiment.run("pi-2000", scheduler, repetitions=max(carico_experiment.repetitions, REPETITIONS))


def mean_running(repetitions) -> float:
    return float(np.mean([running_pods(run)[:, plateau(run)].mean() for run in repetitions]))


def mean_cpu(repetitions) -> float:
    return float(np.mean([cluster_mean(run.nodes, "cpu_utilisation")[plateau(run)].mean() for run in repetitions]))


def test_too_low_a_request_packs_many_pods(carico_experiment, carico_paper):
    """A node holds 38 pods at 100m and 7 at 500m: requests decide, not the pods' needs (Fig 5.3)."""
    running = {}
    for cpu, slots in (("100m", 38), ("500m", 7)):
        running[cpu] = mean_running(carico_experiment.run("pi-2000", f"kube-scheduler:cpu={cpu}"))
        carico_paper.row(f"pi-2000 pods running per node, {cpu} ({slots} slots)", running[cpu], None, "pods")
    # 38 / 7 is 5.4; start-up and churn leave slots empty, and more of them the shorter pods live.
    assert running["100m"] > 3 * running["500m"]


@pytest.mark.parametrize(
    "variant",
    claimed(VARIANTS, {"thesis-literal": "thesis: as many pods per node as 500m; here 0.6 times as many"}),
)
def test_carico_runs_as_many_pods_as_the_best_request(carico_experiment, carico_paper, variant):
    """Without a request CARICO holds about as many pods per node as 500m does (Fig 5.3)."""
    right, carico = (
        mean_running(pi_runs(carico_experiment, scheduler))
        for scheduler in ("kube-scheduler:cpu=500m", f"carico:variant={variant}")
    )
    carico_paper.row("pi-2000 pods running per node, 500m", right, None, "pods")
    carico_paper.row(f"pi-2000 pods running per node, {variant}", carico, None, "pods")
    assert carico == pytest.approx(right, rel=SIMILAR)


@pytest.mark.parametrize("scheduler", ["kube-scheduler:cpu=100m", "kube-scheduler:cpu=500m"])
def test_kube_scheduler_keeps_all_cpus_busy(carico_experiment, carico_paper, scheduler):
    """Kube-scheduler reaches about 100 % CPU in a CPU-bound job at either request (Fig 5.5)."""
    cpu = mean_cpu(carico_experiment.run("pi-2000", scheduler))
    carico_paper.row(f"CPU utilisation in mid-job, {scheduler}", cpu, 1.0)
    assert cpu > FULL


@pytest.mark.parametrize(
    "variant",
    claimed(
        VARIANTS, {"thesis-literal": "thesis: CPU utilisation is consistently high, near 100 %; here 0.88 in mid-job"}
    ),
)
def test_carico_keeps_cpus_busy(carico_experiment, carico_paper, variant):
    """CARICO's CPU utilisation is consistently high in a CPU-bound job (Fig 5.5)."""
    cpu = mean_cpu(pi_runs(carico_experiment, f"carico:variant={variant}"))
    carico_paper.row(f"CPU utilisation in mid-job, {variant}", cpu, 1.0)
    assert cpu > FULL


@pytest.mark.parametrize(
    "variant",
    claimed(
        VARIANTS,
        {
            "thesis-rebased": f"{RAMP}; here 1.3 times as long (5 to 6 s against 4 s), and 1.7 times as long if pods "
            "are created ten times as fast",
            "thesis-literal": f"{RAMP}; here 1.75 times as long (7 s against 4 s)",
        },
    ),
)
def test_carico_takes_longer_to_fill_the_cluster(carico_experiment, carico_paper, variant):
    """CARICO takes more than twice as long to reach 95 % CPU (§5.3)."""
    seconds = {}
    for scheduler in ("kube-scheduler:cpu=500m", f"carico:variant={variant}"):
        times = [time_to_utilisation(run.nodes) for run in pi_runs(carico_experiment, scheduler)]
        reached = [time for time in times if time is not None]
        if len(reached) < len(times):
            # Not an assertion: the claim is neither confirmed nor refuted.
            pytest.fail(f"95 % CPU was not reached under {scheduler}")
        seconds[scheduler] = float(np.mean(reached))
        carico_paper.row(f"time to 95 % CPU, {scheduler}", seconds[scheduler], None, "s")
    kube, carico = seconds.values()
    carico_paper.row(f"time to 95 % CPU, {variant} / 500m", carico / kube, 2.0)
    assert carico > 2 * kube


@pytest.mark.parametrize("variant", VARIANTS)
def test_carico_runs_fewer_sklearn_pods_at_once(carico_experiment, carico_paper, variant):
    """CARICO runs fewer sklearn pods per node and uses less of the cluster (Fig 5.4, 5.6)."""
    used = {}
    for scheduler in ("kube-scheduler:memory=750Mi", f"carico:variant={variant}"):
        runs = carico_experiment.run("sklearn", scheduler, pods=200)
        memory = float(np.mean([cluster_mean(run.nodes, "memory_utilisation")[plateau(run)].mean() for run in runs]))
        used[scheduler] = (mean_running(runs), mean_cpu(runs), memory)
        for what, ours, unit in zip(
            ("pods running", "CPU utilisation", "memory utilisation"), used[scheduler], ("pods", "", ""), strict=True
        ):
            carico_paper.row(f"sklearn {what}, {scheduler}", ours, None, unit)
    kube, carico = used.values()
    assert kube[1] > FULL
    assert carico[0] < kube[0]
    assert carico[2] < kube[2]
