"""The effects of the telemetry source, of update frequency, of delays and of losses (thesis §4.2, §4.2.1)."""

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
"""Least difference that counts: JCT and PCT of the same frequency differ by less from seed to seed."""


@pytest.fixture
def figures(carico_experiment, carico_paper):
    """A function that runs the job and returns its JCT, its mean PCT and the most pods on a node."""

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

    No other frequency improves JCT or PCT without making the other one worse.
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
    """At 0.2 Hz the scheduler places further pods before agents have noticed earlier ones."""
    slow, once = figures("0.2 Hz", "carico:batch_size=50"), figures("1 Hz", "carico:batch_size=10")
    assert slow[0] > 1.1 * once[0]
    assert slow[2] >= once[2] + 3


def test_the_metrics_server_is_too_slow(figures):
    """Means over 15 s come too late for pods that live for 10 s: nodes are overloaded before they notice (§4.2.1)."""
    scheduler = "carico:variant=utilisation-only"
    proc, scraped = figures("/proc", scheduler), figures("metrics server", scheduler, telemetry="metrics-server")
    assert scraped[1] > 2 * proc[1]
    assert scraped[2] > 2 * proc[2]


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_lost_samples_hardly_matter(figures, share):
    """A batch with missing samples is scaled to the weight of a full one."""
    complete, lossy = figures("no sample lost"), figures(f"{share:.0%} of the samples lost", sample_loss=share)
    assert lossy[0] < 1.1 * complete[0]
    assert lossy[1] < 1.1 * complete[1]


@pytest.mark.parametrize("setting", ["telemetry_delay_s", "report_delay_s"])
def test_delayed_information_overloads_nodes(figures, setting):
    """The later the scheduler sees the effect of its decisions, the more it overloads nodes."""
    name = {"telemetry_delay_s": "samples", "report_delay_s": "reports"}[setting]
    fresh = figures("no delay")
    old, older = (figures(f"{name} {delay:g} s old", **{setting: delay}) for delay in (2.0, 5.0))
    assert fresh[1] < old[1] < older[1]
    assert fresh[2] < old[2] < older[2]


def test_lost_reports_overload_nodes(figures):
    """A reservation ends when its pod runs; if no report includes the pod by then, its place is given away again."""
    none, some, most = (figures(f"{share:.0%} of the reports lost", report_loss=share) for share in (0.0, 0.3, 0.6))
    assert none[2] < min(some[2], most[2])
    assert some[1] < 1.25 * none[1], "losing a third of the reports does little harm"
    assert most[1] > max(1.15 * none[1], some[1])
