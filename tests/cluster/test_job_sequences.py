"""Jobs after and during other jobs: what CARICO has learned from earlier pods helps or harms (thesis §5.7)."""

from __future__ import annotations

import msgspec
import pytest

from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_summary
from testbed.measurement.utilisation import running_pods
from testbed.plugin.claims import claimed
from workloads.scenario import load_scenario

pytestmark = pytest.mark.cluster

VARIANTS = ("thesis-rebased", "thesis-literal")
LOW_THEN_HIGH = "low-then-high"
LIGHT_OVER_S = 45.0
"""When the light job is over; it takes 43 s with every seed."""
DRIFT_S = 120.0
"""Time in which the cost drifts from its floor of 0.05 to 0.5 of the baseline, 2 % a second: ln 10 / ln 1.02 = 116 s.
"""


def after_pause(pause_s):
    """Return the scenario with a pause between its jobs."""
    scenario = load_scenario(LOW_THEN_HIGH)
    light, heavy = scenario.jobs
    heavy = msgspec.structs.replace(heavy, start_s=LIGHT_OVER_S + pause_s)
    return msgspec.structs.replace(scenario, jobs=[light, heavy])


@pytest.fixture
def heavy_job(carico_experiment, carico_paper):
    """A function that runs the heavy job after a pause, and returns its mean PCT and its most pods on a node."""

    def run(pause_s):
        runs = carico_experiment.run(after_pause(pause_s), "carico")
        light_s = [run.job_completion_time_s["light"] for run in runs]
        assert light_s == pytest.approx([LIGHT_OVER_S] * len(runs), abs=5), "the pause depends on this"
        mean = pod_completion_summary(runs, "sklearn")["mean"]
        busiest = max(int(running_pods(one)[:, round(LIGHT_OVER_S + pause_s) :].max()) for one in runs)
        carico_paper.row(f"PCT mean, sklearn {pause_s:g} s after light pods", mean, None, "s")
        carico_paper.row(f"most sklearn pods on a node, {pause_s:g} s after", busiest, None, "pods")
        return mean, busiest

    return run


@pytest.fixture
def cold(carico_experiment, carico_paper):
    """Mean PCT and most pods on a node of the heavy job on nodes that have learned nothing yet."""
    runs = carico_experiment.run("sklearn", "carico")
    mean, busiest = pod_completion_summary(runs, "sklearn")["mean"], max(int(running_pods(one).max()) for one in runs)
    carico_paper.row("PCT mean, sklearn on fresh nodes", mean, None, "s")
    carico_paper.row("most sklearn pods on a node, fresh", busiest, None, "pods")
    return mean, busiest


def test_a_heavy_job_right_after_a_light_one_is_packed_too_densely(heavy_job, cold):
    """Nodes that have just learned that pods cost little accept too many expensive pods (§5.7)."""
    mean, busiest = heavy_job(0)
    assert busiest > 1.5 * cold[1]
    assert mean > 1.5 * cold[0]


def test_the_idle_drift_hardly_helps_an_early_job(heavy_job, cold):
    """The growing cost of an idle node "has a limited impact for workloads that arrive in quick succession" (§5.7)."""
    mean, _ = heavy_job(30)
    assert mean > 1.5 * cold[0]


def test_the_idle_drift_helps_a_late_job(heavy_job, cold):
    """After two minutes the cost is back at the initial cost of a fresh node."""
    mean, busiest = heavy_job(DRIFT_S)
    assert mean < 1.2 * cold[0]
    assert busiest <= cold[1] + 1


HARM = "thesis: no figure; here the second job takes 86 to 89 s, the first 58 to 71 s, since the unit of k has changed"


@pytest.mark.parametrize("variant", claimed(VARIANTS, {"thesis-literal": HARM}))
def test_the_same_job_after_a_pause_runs_as_well_as_the_first(carico_experiment, carico_paper, variant):
    """Learning from a job does not harm the same job later."""
    runs = carico_experiment.run("same-job-twice", f"carico:variant={variant}")
    jct = {job: mean_job_completion_s(runs, job) for job in ("first", "second")}
    pct = {job: pod_completion_summary(runs, job)["mean"] for job in ("first", "second")}
    for job in ("first", "second"):
        carico_paper.row(f"JCT, {job} job", jct[job], None, "s")
        carico_paper.row(f"PCT mean, {job} job", pct[job], None, "s")
    assert pct["second"] < 1.1 * pct["first"]
    assert jct["second"] < 1.2 * jct["first"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_jobs_that_arrive_while_others_run(carico_experiment, carico_paper, variant):
    """Pods of all four jobs take less time than under kube-scheduler with the best request for pi-2000."""
    means = {}
    for scheduler in (f"carico:variant={variant}", "kube-scheduler:cpu=500m"):
        runs = carico_experiment.run("arriving-jobs", scheduler)
        for job in ("pi-1", "pi-2", "pi-3", "sklearn"):
            means[scheduler, job] = pod_completion_summary(runs, job)["mean"]
            carico_paper.row(f"PCT mean, {job}, {scheduler}", means[scheduler, job], None, "s")
            carico_paper.row(f"JCT, {job}, {scheduler}", mean_job_completion_s(runs, job), None, "s")
    for (scheduler, job), mean in means.items():
        if scheduler.startswith("carico"):
            assert mean < means["kube-scheduler:cpu=500m", job], job
