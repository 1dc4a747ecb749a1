"""Pod completion times (thesis Tables 5.1, 5.2): kube-scheduler's rows calibrate, CARICO's rows are predictions."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_summary

from .predictions import ALL, VARIANTS, cases, claim

pytestmark = pytest.mark.cluster

COLUMNS = ("mean", "std", "min", "p25", "p50", "p75", "max")
PI_100M = dict(zip(COLUMNS, (47.43, 14.59, 7.00, 39.00, 52.00, 57.00, 73.00), strict=True))
PI_500M = dict(zip(COLUMNS, (9.55, 1.49, 5.00, 9.00, 10.00, 10.00, 14.00), strict=True))
PI_CARICO = dict(zip(COLUMNS, (7.69, 0.99, 5.00, 7.00, 8.00, 8.00, 11.00), strict=True))
SKLEARN_750MI = dict(zip(COLUMNS, (127.38, 5.29, 118, 123.00, 126.00, 132.00, 138.00), strict=True))
SKLEARN_CARICO = dict(zip(COLUMNS, (59.02, 14.62, 27.00, 55.00, 61.00, 66.00, 94.00), strict=True))
JOBS = {
    "pi-2000": (PI_CARICO, "kube-scheduler:cpu=500m"),
    "sklearn": (SKLEARN_CARICO, "kube-scheduler:memory=750Mi"),
}
"""CARICO's row of each job in the thesis, and the scheduler it is compared with there."""

CALIBRATION_TOLERANCE = 0.05
"""The simulator is calibrated to these rows and must meet their means within 5 %."""
AS_LARGE = 0.9
"""A ratio counts as reproduced if it is at least nine tenths of the thesis's ratio."""


@pytest.mark.carico_calibration
@pytest.mark.parametrize(
    ("scenario", "scheduler", "thesis"),
    [
        pytest.param("pi-2000", "kube-scheduler:cpu=100m", PI_100M, id="pi-100m"),
        pytest.param("pi-2000", "kube-scheduler:cpu=500m", PI_500M, id="pi-500m"),
        pytest.param("sklearn", "kube-scheduler:memory=750Mi", SKLEARN_750MI, id="sklearn-750Mi"),
    ],
)
def test_calibration_rows(carico_experiment, carico_paper, scenario, scheduler, thesis):
    """The rows on which the simulator was calibrated: means are met within 5 %, quartiles are reported."""
    ours = pod_completion_summary(carico_experiment.run(scenario, scheduler), scenario)
    for column in COLUMNS:
        carico_paper.row(f"PCT {column}, {scheduler}", ours[column], thesis[column], "s")
    assert ours["mean"] == pytest.approx(thesis["mean"], rel=CALIBRATION_TOLERANCE)


@claim("§5.2, Tables 5.1, 5.2", "pods complete earlier on average than with the best request")
@pytest.mark.parametrize(("scenario", "carico"), cases(JOBS, ALL))
def test_carico_pods_complete_earlier(carico_seeds, carico_paper, scenario, carico):
    thesis, scheduler = JOBS[scenario]
    for seed in carico_seeds:
        with seed:
            runs = seed.run(scenario, carico.scheduler, settings=carico.settings)
            ours = pod_completion_summary(runs, scenario)
            carico_paper.row(f"JCT, {carico}", mean_job_completion_s(runs, scenario), None, "s")
            for column in reversed(COLUMNS):
                carico_paper.row(f"PCT {column}, {carico}", ours[column], thesis[column], "s")
            best_request = pod_completion_summary(seed.run(scenario, scheduler), scenario)
            assert ours["mean"] < best_request["mean"]


@claim("§5.2, Table 5.1", "pods take a fifth less time than with the best request, and vary by a third less")
@pytest.mark.parametrize(
    ("statistic", "carico"),
    cases(
        ("mean", "std"),
        ALL,
        missing={
            "mean-thesis-rebased": "thesis: mean PCT at 500m is 1.24 times CARICO's; here 1.04 times, since "
            "nodes run nearly as many pods as with 500m where pressure is the kernel's",
            "std-thesis-rebased": "thesis: the spread of PCT at 500m is 1.5 times CARICO's; here 0.95 times",
            "std-thesis-literal": "thesis: the spread of PCT at 500m is 1.5 times CARICO's; here 0.96 times",
            "std-thesis-literal-at-least-one-waiting": "thesis: spread at 500m 1.5 times CARICO's; here 1.1 times, "
            "enough on 2 of 6 seeds",
            "std-thesis-rebased-at-least-one-waiting": "thesis: spread at 500m 1.5 times CARICO's; here 1.2 times, "
            "enough on 1 of 6 seeds",
        },
    ),
)
def test_pods_are_earlier_and_more_alike_than_with_the_best_request(carico_seeds, carico_paper, statistic, carico):
    """kube-scheduler at 500m has 25 % higher mean and 50 % more spread than CARICO."""
    thesis = PI_500M[statistic] / PI_CARICO[statistic]
    for seed in carico_seeds:
        with seed:
            theirs, ours = (
                pod_completion_summary(runs, "pi-2000")[statistic]
                for runs in (
                    seed.run("pi-2000", "kube-scheduler:cpu=500m"),
                    seed.run("pi-2000", carico.scheduler, settings=carico.settings),
                )
            )
            carico_paper.row(f"{statistic} of PCT, 500m / {carico}", theirs / ours, thesis)
            assert theirs / ours > AS_LARGE * thesis


@claim("§5.2, Table 5.2", "sklearn's pods vary more than with the best request")
@pytest.mark.parametrize("carico", cases(VARIANTS))
def test_sklearn_pods_vary_more(carico_seeds, carico_paper, carico):
    """With 750Mi kube-scheduler has the tighter distribution: 5.3 s against 14.6 s."""
    for seed in carico_seeds:
        with seed:
            kube = pod_completion_summary(seed.run("sklearn", "kube-scheduler:memory=750Mi"), "sklearn")
            ours = pod_completion_summary(seed.run("sklearn", carico.scheduler), "sklearn")
            for who, found, thesis in (("750Mi", kube, SKLEARN_750MI), (carico, ours, SKLEARN_CARICO)):
                carico_paper.row(
                    f"std/mean of PCT, {who}", found["std"] / found["mean"], thesis["std"] / thesis["mean"]
                )
                carico_paper.row(f"std of PCT, {who}", found["std"], thesis["std"], "s")
            assert kube["std"] < ours["std"]
