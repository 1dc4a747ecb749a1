"""Pod completion times (thesis Tables 5.1, 5.2): kube-scheduler's rows calibrate, CARICO's rows are predictions."""

from __future__ import annotations

from itertools import product

import pytest

from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_summary
from testbed.plugin.claims import claimed

pytestmark = pytest.mark.cluster

VARIANTS = ("thesis-rebased", "thesis-literal")

COLUMNS = ("mean", "std", "min", "p25", "p50", "p75", "max")
PI_100M = dict(zip(COLUMNS, (47.43, 14.59, 7.00, 39.00, 52.00, 57.00, 73.00), strict=True))
PI_500M = dict(zip(COLUMNS, (9.55, 1.49, 5.00, 9.00, 10.00, 10.00, 14.00), strict=True))
PI_CARICO = dict(zip(COLUMNS, (7.69, 0.99, 5.00, 7.00, 8.00, 8.00, 11.00), strict=True))
SKLEARN_750MI = dict(zip(COLUMNS, (127.38, 5.29, 118, 123.00, 126.00, 132.00, 138.00), strict=True))
SKLEARN_CARICO = dict(zip(COLUMNS, (59.02, 14.62, 27.00, 55.00, 61.00, 66.00, 94.00), strict=True))

CALIBRATION_TOLERANCE = 0.05
"""The simulator is calibrated to these rows and must meet their means within 5 %."""
AS_LARGE = 0.9
"""A ratio counts as reproduced from nine tenths of the thesis's ratio on."""


@pytest.mark.parametrize(
    ("scenario", "scheduler", "job", "thesis"),
    [
        pytest.param("pi-2000", "kube-scheduler:cpu=100m", "pi-2000", PI_100M, id="pi-100m"),
        pytest.param("pi-2000", "kube-scheduler:cpu=500m", "pi-2000", PI_500M, id="pi-500m"),
        pytest.param("sklearn", "kube-scheduler:memory=750Mi", "sklearn", SKLEARN_750MI, id="sklearn-750Mi"),
    ],
)
def test_calibration_rows(carico_experiment, carico_paper, scenario, scheduler, job, thesis):
    """The means to which the simulator was calibrated are met within 5 %; quartiles are reported."""
    ours = pod_completion_summary(carico_experiment.run(scenario, scheduler), job)
    for column in COLUMNS:
        carico_paper.row(f"PCT {column}, {scheduler}", ours[column], thesis[column], "s")
    assert ours["mean"] == pytest.approx(thesis["mean"], rel=CALIBRATION_TOLERANCE)


@pytest.mark.parametrize(
    ("scenario", "job", "thesis", "request_"),
    [
        pytest.param("pi-2000", "pi-2000", PI_CARICO, "cpu=500m", id="pi"),
        pytest.param("sklearn", "sklearn", SKLEARN_CARICO, "memory=750Mi", id="sklearn"),
    ],
)
def test_carico_pods_complete_earlier(carico_experiment, carico_paper, scenario, job, thesis, request_, prediction):
    """CARICO's mean PCT is below that of kube-scheduler with the best request (§5.2)."""
    runs = carico_experiment.run(scenario, prediction.scheduler, settings=prediction.settings)
    ours = pod_completion_summary(runs, job)
    for column in COLUMNS:
        carico_paper.row(f"PCT {column}, {prediction.variant}", ours[column], thesis[column], "s")
    carico_paper.row(f"JCT, {prediction.variant}", mean_job_completion_s(runs, job), None, "s")
    best_request = pod_completion_summary(carico_experiment.run(scenario, f"kube-scheduler:{request_}"), job)
    assert ours["mean"] < best_request["mean"]


def test_low_requests_make_a_long_tail(carico_experiment, carico_paper):
    """At 100m half of the pods take longer than 52 s; the spread is many times that of 500m (§5.2)."""
    low = pod_completion_summary(carico_experiment.run("pi-2000", "kube-scheduler:cpu=100m"), "pi-2000")
    right = pod_completion_summary(carico_experiment.run("pi-2000", "kube-scheduler:cpu=500m"), "pi-2000")
    for statistic in ("mean", "std"):
        thesis = PI_100M[statistic] / PI_500M[statistic]
        ratio = low[statistic] / right[statistic]
        carico_paper.row(f"{statistic} of PCT, 100m / 500m", ratio, thesis)
        assert ratio > AS_LARGE * thesis


MEAN, SPREAD = (
    "thesis: mean PCT at 500m is 1.24 times CARICO's",
    "thesis: the spread of PCT at 500m is 1.5 times CARICO's",
)
NOT_AS_LARGE = {
    (
        "mean",
        "thesis-rebased",
        "kernel",
    ): f"{MEAN}; here 1.08 times, because CARICO with the kernel's pressure runs nearly as many pods as 500m does",
    ("std", "thesis-rebased", "kernel"): f"{SPREAD}; here 0.8 times",
    ("std", "thesis-rebased", "at-least-one-waiting"): f"{SPREAD}; here 1.1 to 1.2 times",
    ("std", "thesis-literal", "kernel"): f"{SPREAD}; here 1.0 times",
    ("std", "thesis-literal", "at-least-one-waiting"): f"{SPREAD}; here 1.1 times",
}
REPETITIONS = 3
"""Least repetitions, doubled near the limit: the ratio of spreads varies by 0.13 from seed to seed."""


@pytest.mark.parametrize(
    ("statistic", "variant", "pressure"),
    claimed(product(("mean", "std"), VARIANTS, ("kernel", "at-least-one-waiting")), NOT_AS_LARGE),
)
def test_pods_complete_earlier_and_more_evenly_than_with_the_best_request(
    carico_experiment, carico_paper, statistic, variant, pressure
):
    """kube-scheduler at 500m has 25 % higher mean and 50 % more spread than CARICO (§5.2)."""
    near_limit = (statistic, variant, pressure) == ("std", "thesis-rebased", "at-least-one-waiting")
    repetitions = max(carico_experiment.repetitions, REPETITIONS * (1 + near_limit))

    def found(scheduler, reading="kernel"):
        settings = {"pressure": reading}
        runs = carico_experiment.run("pi-2000", scheduler, repetitions=repetitions, settings=settings)
        return pod_completion_summary(runs, "pi-2000")[statistic]

    thesis = PI_500M[statistic] / PI_CARICO[statistic]
    ratio = found("kube-scheduler:cpu=500m") / found(f"carico:variant={variant}", pressure)
    carico_paper.row(f"{statistic} of PCT, 500m / {variant}", ratio, thesis)
    assert ratio > AS_LARGE * thesis


@pytest.mark.parametrize("variant", VARIANTS)
def test_kube_scheduler_spread_is_tighter_for_sklearn(carico_experiment, carico_paper, variant):
    """With 750Mi kube-scheduler has the tighter distribution: 5.3 s against 14.6 s (§5.2)."""
    kube = pod_completion_summary(carico_experiment.run("sklearn", "kube-scheduler:memory=750Mi"), "sklearn")
    carico = pod_completion_summary(carico_experiment.run("sklearn", f"carico:variant={variant}"), "sklearn")
    relative = {}
    for who, ours, thesis in (("750Mi", kube, SKLEARN_750MI), (variant, carico, SKLEARN_CARICO)):
        relative[who] = ours["std"] / ours["mean"]
        carico_paper.row(f"std of PCT, {who}", ours["std"], thesis["std"], "s")
        carico_paper.row(f"std/mean, {who}", relative[who], thesis["std"] / thesis["mean"])
    assert relative["750Mi"] < relative[variant]
