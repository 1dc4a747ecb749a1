"""Two different jobs at the same time (thesis §5.4, Fig 5.7 to 5.9, Table 5.3)."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_summary
from testbed.measurement.utilisation import cluster_mean, running_pods
from testbed.plugin.claims import claimed

pytestmark = pytest.mark.cluster

VARIANTS = ("thesis-rebased", "thesis-literal")

SCENARIO = "pi-and-sklearn"
COLUMNS = ("mean", "std", "min", "p25", "p50", "p75", "max")
KUBE = {
    "pi-2000": dict(zip(COLUMNS, (28.78, 7.52, 7.00, 27.00, 30.00, 33.00, 45.00), strict=True)),
    "sklearn": dict(zip(COLUMNS, (65.25, 10.53, 49.00, 58.25, 64.00, 75.25, 82.00), strict=True)),
}
CARICO = {
    "pi-2000": dict(zip(COLUMNS, (7.40, 1.14, 5.00, 7.00, 7.00, 8.00, 11.0), strict=True)),
    "sklearn": dict(zip(COLUMNS, (34.50, 7.39, 22.00, 27.50, 36.00, 40.25, 44.00), strict=True)),
}
MIXED_TOLERANCE = 0.15
"""The joint calibration leaves the mixed rows about 9 % too high (docs/design.md); a larger error is a regression."""


SIMILAR = 0.15
"""The thesis shows only curves and calls them similar; 15 % is our reading of this."""
SEVERAL = 3.0
"""The thesis's ratios are 3.9 and 6.6; three quarters of the smaller one still count as several times."""
WELL_BELOW = 0.75
"""The thesis's ratios of CARICO's mean PCT to kube-scheduler's are 0.26 and 0.53."""
REPETITIONS = {"carico:variant=thesis-literal": 4}
NEAR_LIMIT = 8
"""Least repetitions of other schedulers: 20 sklearn pods say little about a spread, and utilisation varies by 5 %."""


def mixed_runs(carico_experiment, scheduler):
    return carico_experiment.run(
        SCENARIO, scheduler, repetitions=max(carico_experiment.repetitions, REPETITIONS.get(scheduler, NEAR_LIMIT))
    )


@pytest.mark.parametrize("job", ["pi-2000", "sklearn"])
def test_calibration_rows(carico_experiment, carico_paper, job):
    """kube-scheduler's rows of the mixed jobs are met as closely as the joint calibration allows."""
    ours = pod_completion_summary(carico_experiment.run(SCENARIO, "kube-scheduler"), job)
    for column in COLUMNS:
        carico_paper.row(f"{job} PCT {column}, kube-scheduler", ours[column], KUBE[job][column], "s")
    assert ours["mean"] == pytest.approx(KUBE[job]["mean"], rel=MIXED_TOLERANCE)


@pytest.mark.parametrize("job", ["pi-2000", "sklearn"])
def test_carico_pods_complete_earlier(carico_experiment, carico_paper, job, prediction):
    """CARICO's mean PCT of both jobs is well below kube-scheduler's (Table 5.3)."""
    runs = carico_experiment.run(SCENARIO, prediction.scheduler, settings=prediction.settings)
    ours = pod_completion_summary(runs, job)
    for column in COLUMNS:
        carico_paper.row(f"{job} PCT {column}, {prediction.variant}", ours[column], CARICO[job][column], "s")
    kube = pod_completion_summary(carico_experiment.run(SCENARIO, "kube-scheduler"), job)
    assert ours["mean"] < WELL_BELOW * kube["mean"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_short_pods_complete_several_times_earlier(carico_experiment, carico_paper, variant):
    """pi-2000's PCT has a several times lower mean and spread under CARICO (Table 5.3: 3.9 and 6.6 times)."""
    kube = pod_completion_summary(mixed_runs(carico_experiment, "kube-scheduler"), "pi-2000")
    carico = pod_completion_summary(mixed_runs(carico_experiment, f"carico:variant={variant}"), "pi-2000")
    for statistic in ("mean", "std"):
        thesis = KUBE["pi-2000"][statistic] / CARICO["pi-2000"][statistic]
        ratio = kube[statistic] / carico[statistic]
        carico_paper.row(f"{statistic} of PCT, kube-scheduler / {variant}", ratio, thesis)
        assert ratio > SEVERAL


@pytest.mark.parametrize(
    "variant",
    claimed(
        VARIANTS, {"thesis-literal": "thesis: the spread under kube-scheduler is 1.4 times CARICO's; here 0.4 times"}
    ),
)
def test_sklearn_distribution_is_tighter(carico_experiment, carico_paper, variant):
    """CARICO's PCT distribution of sklearn is tighter, too: 7.4 s against 10.5 s (Table 5.3)."""
    kube = pod_completion_summary(mixed_runs(carico_experiment, "kube-scheduler"), "sklearn")
    carico = pod_completion_summary(mixed_runs(carico_experiment, f"carico:variant={variant}"), "sklearn")
    thesis = KUBE["sklearn"]["std"] / CARICO["sklearn"]["std"]
    carico_paper.row(f"std of sklearn PCT, kube-scheduler / {variant}", kube["std"] / carico["std"], thesis)
    assert carico["std"] < kube["std"]


@pytest.mark.parametrize(
    "variant",
    claimed(VARIANTS, {"thesis-literal": "thesis: a lower JCT than kube-scheduler's; here 1.2 times as high"}),
)
def test_jobs_of_mostly_short_pods_complete_earlier(carico_experiment, carico_paper, variant):
    """CARICO achieves a lower JCT of both jobs together when most pods are pi-2000 (Fig 5.7)."""
    completion = {}
    for scheduler in ("kube-scheduler", f"carico:variant={variant}"):
        runs = mixed_runs(carico_experiment, scheduler)
        by_job = {job: mean_job_completion_s(runs, job) for job in KUBE}
        completion[scheduler] = max(by_job.values())
        for job, seconds in by_job.items():
            carico_paper.row(f"{job} JCT, {scheduler}", seconds, None, "s")
    kube, carico = completion.values()
    assert carico < kube


@pytest.mark.parametrize("variant", VARIANTS)
def test_running_pods_are_more_even(carico_experiment, carico_paper, variant):
    """Running pods are consistent under CARICO; under kube-scheduler they vary from 25 to less than 3 (Fig 5.8)."""
    peak, spread = {}, {}
    for scheduler, thesis in (("kube-scheduler", 25), (f"carico:variant={variant}", None)):
        series = [running_pods(run) for run in mixed_runs(carico_experiment, scheduler)]
        peak[scheduler] = max(int(run.max()) for run in series)
        spread[scheduler] = float(np.mean([run.mean(axis=0).std() for run in series]))
        carico_paper.row(f"peak of running pods, {scheduler}", peak[scheduler], thesis)
        carico_paper.row(f"std of running pods over time, {scheduler}", spread[scheduler], None, "pods")
    (kube_peak, carico_peak), (kube_spread, carico_spread) = peak.values(), spread.values()
    # In the figure CARICO's band is well below half as high as kube-scheduler's.
    assert carico_peak < kube_peak / 2
    assert carico_spread < kube_spread / 2


@pytest.mark.parametrize(
    "variant",
    claimed(VARIANTS, {"thesis-literal": "thesis: a CPU utilisation similar to kube-scheduler's; here 0.8 times"}),
)
def test_utilisation_is_similar(carico_experiment, carico_paper, variant):
    """CARICO's CPU utilisation under the mixed jobs is similar to kube-scheduler's (Fig 5.9)."""
    used = {}
    for scheduler in ("kube-scheduler", f"carico:variant={variant}"):
        runs = mixed_runs(carico_experiment, scheduler)
        used[scheduler] = float(np.mean([cluster_mean(run.nodes, "cpu_utilisation").mean() for run in runs]))
        carico_paper.row(f"mean CPU utilisation, {scheduler}", used[scheduler], None)
    kube, carico = used.values()
    assert carico == pytest.approx(kube, rel=SIMILAR)


@pytest.mark.parametrize("variant", VARIANTS)
def test_utilisation_is_more_consistent(carico_experiment, carico_paper, variant):
    """CARICO's CPU utilisation is more consistent across the jobs' runtime (§5.4, Fig 5.9)."""
    spread = {}
    for scheduler in ("kube-scheduler", f"carico:variant={variant}"):
        runs = mixed_runs(carico_experiment, scheduler)
        spread[scheduler] = float(np.mean([cluster_mean(run.nodes, "cpu_utilisation").std() for run in runs]))
        carico_paper.row(f"std of CPU utilisation over time, {scheduler}", spread[scheduler], None)
    kube, carico = spread.values()
    assert carico < kube
