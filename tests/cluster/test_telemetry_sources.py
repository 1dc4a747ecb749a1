"""Where telemetry comes from, how often it is used, how old it is, how much of it gets lost (thesis §4.2, §4.2.1)."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_summary
from testbed.measurement.utilisation import running_pods

pytestmark = pytest.mark.cluster

JOB = "pi-2000"
PODS = 500
BATCHES = {0.2: 50, 0.5: 20, 1: 10, 2: 5, 5: 2, 10: 1}
"""Samples at 10 Hz between two steps of an agent, by the frequency of steps in Hz."""
CLEARLY = 0.05
"""What counts as better: JCT and PCT of the same frequency differ by less from seed to seed."""


@pytest.fixture
def figures(carico_experiment, carico_paper):
    """Run the job and return its JCT, mean PCT and the most pods that a node ran."""

    def run(name, scheduler="carico", **settings):
        runs = carico_experiment.run(JOB, scheduler, pods=PODS, settings=settings)
        jct, pct = mean_job_completion_s(runs, JOB), pod_completion_summary(runs, JOB)["mean"]
        most = max(int(running_pods(one).max()) for one in runs)
        for what, value, unit in (("JCT", jct, "s"), ("PCT mean", pct, "s"), ("most pods on a node", most, "pods")):
            carico_paper.row(f"{what}, {name}", value, None, unit)
        return jct, pct, most

    return run


def test_no_update_frequency_is_better_than_1_hz(figures):
    """ "An update frequency of 1Hz achieved the best results" (§4.2).

    None is better in one of JCT and PCT without being worse in the other.
    """
    found = {hertz: figures(f"{hertz:g} Hz", f"carico:batch_size={size}") for hertz, size in BATCHES.items()}
    jct, pct, _ = found[1]
    better = [
        hertz
        for hertz, (other_jct, other_pct, _) in found.items()
        if min(other_jct / jct, other_pct / pct) < 1 - CLEARLY and max(other_jct / jct, other_pct / pct) < 1 + CLEARLY
    ]
    assert not better


def test_slow_updates_are_worse(figures):
    """At 0.2 Hz agents notice what the scheduler did after it has done more of it."""
    slow, once = figures("0.2 Hz", "carico:batch_size=50"), figures("1 Hz", "carico:batch_size=10")
    assert slow[0] > 1.1 * once[0]
    assert slow[2] >= once[2] + 3


def test_the_metrics_server_is_too_slow(figures):
    """Means over 15 s come too late for pods that live for ten: nodes are overloaded before they know (§4.2.1)."""
    scheduler = "carico:variant=utilisation-only"
    proc, scraped = figures("/proc", scheduler), figures("metrics server", scheduler, telemetry="metrics-server")
    assert scraped[1] > 2 * proc[1]
    assert scraped[2] > 2 * proc[2]


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_lost_samples_hardly_matter(figures, share):
    """A batch with holes is scaled to a full one's weight."""
    all_of, some = figures("no sample lost"), figures(f"{share:.0%} of the samples lost", sample_loss=share)
    assert some[0] < 1.1 * all_of[0]
    assert some[1] < 1.1 * all_of[1]


@pytest.mark.parametrize("setting", ["telemetry_delay_s", "report_delay_s"])
def test_old_news_overload_nodes(figures, setting):
    """The longer it takes until the scheduler sees what it did, the more pods it puts on a node too many."""
    name = {"telemetry_delay_s": "samples", "report_delay_s": "reports"}[setting]
    fresh = figures("everything at once")
    old, older = (figures(f"{name} {delay:g} s old", **{setting: delay}) for delay in (2.0, 5.0))
    assert fresh[1] < old[1] < older[1]
    assert fresh[2] < old[2] < older[2]


def test_lost_reports_overload_nodes(figures):
    """A reservation ends when its pod runs; if no report has told of the pod by then, its place is given away again."""
    none, some, most = (figures(f"{share:.0%} of the reports lost", report_loss=share) for share in (0.0, 0.3, 0.6))
    assert none[2] < min(some[2], most[2])
    assert some[1] < 1.25 * none[1], "a third may be lost without much harm"
    assert most[1] > max(1.15 * none[1], some[1])
