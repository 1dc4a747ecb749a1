"""Two different jobs at the same time (thesis §5.4, Fig 5.7 to 5.9, Table 5.3)."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_summary
from testbed.measurement.utilisation import cluster_mean, running_pods

from .predictions import ALL, VARIANTS, cases, claim

pytestmark = pytest.mark.cluster

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
"""The joint calibration leaves the mixed rows about 9 % too high (docs/design.md); more than this is a regression."""
SIMILAR = 0.15
"""The thesis only shows curves and calls them similar; 15 % is our interpretation."""
AS_LARGE = 0.75
"""Three quarters of one of the thesis's ratios, which are from few pods, count as the same ratio."""
HALF = 0.5
"""Fig 5.8's band of running pods under CARICO is well below half as high as kube-scheduler's."""
KUBE_SCHEDULER = "kube-scheduler"


@pytest.mark.carico_calibration
@pytest.mark.parametrize("job", KUBE)
def test_calibration_rows(carico_experiment, carico_paper, job):
    """kube-scheduler's mixed rows are as close as the joint calibration gets; quartiles are reported."""
    ours = pod_completion_summary(carico_experiment.run(SCENARIO, KUBE_SCHEDULER), job)
    for column in COLUMNS:
        carico_paper.row(f"{job} PCT {column}, kube-scheduler", ours[column], KUBE[job][column], "s")
    assert ours["mean"] == pytest.approx(KUBE[job]["mean"], rel=MIXED_TOLERANCE)


@claim("§5.4, Table 5.3", "pods of both jobs complete earlier on average")
@pytest.mark.parametrize(
    ("job", "carico"),
    cases(
        KUBE,
        ALL,
        undecided={
            "sklearn-thesis-rebased": "thesis: 0.53 times kube-scheduler's mean; here 0.81 times on average, "
            "below 0.75 on 2 of 6 seeds"
        },
    ),
)
def test_carico_pods_complete_earlier(carico_seeds, carico_paper, job, carico):
    """In the thesis the means are 0.26 and 0.53 times kube-scheduler's."""
    for seed in carico_seeds:
        with seed:
            ours = pod_completion_summary(seed.run(SCENARIO, carico.scheduler, settings=carico.settings), job)
            for column in reversed(COLUMNS):
                carico_paper.row(f"{job} PCT {column}, {carico}", ours[column], CARICO[job][column], "s")
            kube = pod_completion_summary(seed.run(SCENARIO, KUBE_SCHEDULER), job)
            assert ours["mean"] < AS_LARGE * kube["mean"]


@claim("§5.4, Table 5.3", "short pods take several times less time, and vary several times less")
@pytest.mark.parametrize(
    ("statistic", "carico"),
    cases(("mean", "std"), VARIANTS, missing={"std-thesis-rebased": "thesis: 6.6 times; here 3.9 times"}),
)
def test_short_pods_complete_several_times_earlier(carico_seeds, carico_paper, statistic, carico):
    """The thesis's text says seven times for both; the test uses its table's rows, 3.9 and 6.6 times."""
    thesis = KUBE["pi-2000"][statistic] / CARICO["pi-2000"][statistic]
    for seed in carico_seeds:
        with seed:
            kube, ours = (
                pod_completion_summary(seed.run(SCENARIO, scheduler), "pi-2000")[statistic]
                for scheduler in (KUBE_SCHEDULER, carico.scheduler)
            )
            carico_paper.row(f"{statistic} of PCT, kube-scheduler / {carico}", kube / ours, thesis)
            assert kube / ours > AS_LARGE * thesis


@claim("§5.4, Table 5.3", "sklearn's pods vary less")
@pytest.mark.parametrize(
    "carico",
    cases(
        VARIANTS,
        missing={
            "thesis-rebased": "thesis: the spread under kube-scheduler is 1.4 times CARICO's; here 0.5 times",
            "thesis-literal": "thesis: the spread under kube-scheduler is 1.4 times CARICO's; here 0.3 times",
        },
    ),
)
def test_sklearn_distribution_is_tighter(carico_seeds, carico_paper, carico):
    thesis = KUBE["sklearn"]["std"] / CARICO["sklearn"]["std"]
    for seed in carico_seeds:
        with seed:
            kube, ours = (
                pod_completion_summary(seed.run(SCENARIO, scheduler), "sklearn")["std"]
                for scheduler in (KUBE_SCHEDULER, carico.scheduler)
            )
            carico_paper.row(f"std of sklearn PCT, kube-scheduler / {carico}", kube / ours, thesis)
            assert ours < kube


@claim("§5.4, Fig 5.7", "both jobs together complete earlier where most pods are short")
@pytest.mark.parametrize(
    "carico",
    cases(
        VARIANTS,
        missing={"thesis-literal": "thesis: earlier; here 1.12 times kube-scheduler's JCT"},
        undecided={
            "thesis-rebased": "thesis: earlier; here on 2 of 6 seeds, 1.08 times kube-scheduler's JCT on average"
        },
    ),
)
def test_jobs_of_mostly_short_pods_complete_earlier(carico_seeds, carico_paper, carico):
    for seed in carico_seeds:
        with seed:
            completion = {}
            for who, scheduler in ((KUBE_SCHEDULER, KUBE_SCHEDULER), (str(carico), carico.scheduler)):
                by_job = {job: mean_job_completion_s(seed.run(SCENARIO, scheduler), job) for job in KUBE}
                completion[who] = max(by_job.values())
                for job, seconds in by_job.items():
                    carico_paper.row(f"{job} JCT, {who}", seconds, None, "s")
            kube, ours = completion.values()
            carico_paper.row(f"JCT of both, {carico} / kube-scheduler", ours / kube, None)
            assert ours < kube


@claim("§5.4, Fig 5.8", "running pods are even over time, where kube-scheduler's vary from 25 to below 3")
@pytest.mark.parametrize("carico", cases(VARIANTS))
def test_running_pods_are_more_even(carico_seeds, carico_paper, carico):
    for seed in carico_seeds:
        with seed:
            peak, spread = {}, {}
            for who, scheduler, thesis in ((KUBE_SCHEDULER, KUBE_SCHEDULER, 25), (str(carico), carico.scheduler, None)):
                series = running_pods(seed.run(SCENARIO, scheduler)[0])
                peak[who], spread[who] = int(series.max()), float(series.mean(axis=0).std())
                carico_paper.row(f"std of running pods over time, {who}", spread[who], None, "pods")
                carico_paper.row(f"peak of running pods, {who}", peak[who], thesis)
            assert peak[str(carico)] < HALF * peak[KUBE_SCHEDULER]
            assert spread[str(carico)] < HALF * spread[KUBE_SCHEDULER]


def cpu_over_time(seed, scheduler):
    return cluster_mean(seed.run(SCENARIO, scheduler)[0].nodes, "cpu_utilisation")


@claim("§5.4, Fig 5.9", "CPU utilisation is similar to kube-scheduler's")
@pytest.mark.parametrize(
    "carico",
    cases(
        VARIANTS,
        undecided={"thesis-literal": "thesis: similar; here within 15 % on 4 of 6 seeds, 0.89 times on average"},
    ),
)
def test_utilisation_is_similar(carico_seeds, carico_paper, carico):
    for seed in carico_seeds:
        with seed:
            kube, ours = (float(cpu_over_time(seed, one).mean()) for one in (KUBE_SCHEDULER, carico.scheduler))
            carico_paper.row(f"mean CPU utilisation, {carico} / kube-scheduler", ours / kube, None)
            assert ours == pytest.approx(kube, rel=SIMILAR)


@claim("§5.4, Fig 5.9", "CPU utilisation varies less over the jobs' runtime")
@pytest.mark.parametrize(
    "carico",
    cases(VARIANTS, undecided={"thesis-rebased": "thesis: more consistent; here on 2 of 6 seeds, as much on average"}),
)
def test_utilisation_is_more_consistent(carico_seeds, carico_paper, carico):
    for seed in carico_seeds:
        with seed:
            kube, ours = (float(cpu_over_time(seed, one).std()) for one in (KUBE_SCHEDULER, carico.scheduler))
            carico_paper.row(f"std of CPU utilisation over time, {carico} / kube-scheduler", ours / kube, None)
            assert ours < kube
