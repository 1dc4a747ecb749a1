"""The effects of the telemetry source, of update frequency, of delays and of losses (thesis §4.2, §4.2.1)."""

from __future__ import annotations

import pytest

from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_summary
from testbed.measurement.utilisation import running_pods

from .predictions import claim

pytestmark = pytest.mark.cluster

JOB = "pi-2000"
PODS = 500
BATCHES = {0.2: 50, 0.5: 20, 1: 10, 2: 5, 5: 2, 10: 1}
"""Samples at 10 Hz between two steps of an agent, by the frequency of steps in Hz."""
CLEARLY = 0.05
"""The least improvement that counts: with one frequency, JCT and PCT differ by less than this from seed to seed."""
OVERLOADED, WORSE = 1.5, 1.1
"""The least changes that count: 1.5 times the pods on a node, and a mean PCT beyond the thesis's comparable 10 %."""
FRESH = "everything at once"


def figures(seed, carico_paper, name, scheduler="carico", **settings):
    """Run the job and return its JCT, mean PCT and the most pods that a node ran."""
    runs = seed.run(JOB, scheduler, pods=PODS, settings=settings)
    jct, pct = mean_job_completion_s(runs, JOB), pod_completion_summary(runs, JOB)["mean"]
    most = int(running_pods(runs[0]).max())
    for what, value, unit in (("JCT", jct, "s"), ("most pods on a node", most, "pods"), ("PCT mean", pct, "s")):
        carico_paper.row(f"{what}, {name}", value, None, unit)
    return jct, pct, most


@claim("§4.2", "no update frequency is better than 1 Hz")
def test_no_update_frequency_is_better_than_1_hz(carico_seeds, carico_paper):
    """No frequency is better in JCT or PCT without being worse in the other."""
    for seed in carico_seeds:
        with seed:
            found = {
                hertz: figures(
                    seed, carico_paper, f"{hertz:g} Hz", "carico" if hertz == 1 else f"carico:batch_size={n}"
                )
                for hertz, n in BATCHES.items()
            }
            jct, pct, _ = found[1]
            ratios = {hertz: (other_jct / jct, other_pct / pct) for hertz, (other_jct, other_pct, _) in found.items()}
            better = [hertz for hertz, both in ratios.items() if min(both) < 1 - CLEARLY and max(both) < 1 + CLEARLY]
            assert not better


def test_slow_updates_are_worse(carico_seeds, carico_paper):
    """At 0.2 Hz agents notice what the scheduler did after it has done more of it."""
    for seed in carico_seeds:
        with seed:
            slow = figures(seed, carico_paper, "0.2 Hz", f"carico:batch_size={BATCHES[0.2]}")
            once = figures(seed, carico_paper, "1 Hz")
            assert slow[0] > 1.1 * once[0]


@claim("§4.2.1", "the metrics server is too slow for pods that live for seconds")
def test_the_metrics_server_is_too_slow(carico_seeds, carico_paper):
    """Means over 15 s miss short-lived pods; the thesis gives no figure for the effect."""
    scheduler = "carico:variant=utilisation-only"
    for seed in carico_seeds:
        with seed:
            proc = figures(seed, carico_paper, "/proc", scheduler)
            scraped = figures(seed, carico_paper, "metrics server", scheduler, telemetry="metrics-server")
            carico_paper.row("most pods on a node, metrics server / /proc", scraped[2] / proc[2], None)
            carico_paper.row("PCT mean, metrics server / /proc", scraped[1] / proc[1], None)
            assert scraped[2] > OVERLOADED * proc[2]
            assert scraped[1] > WORSE * proc[1]


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_lost_samples_hardly_matter(carico_seeds, carico_paper, share):
    """A batch with missing samples is scaled to the weight of a full one."""
    for seed in carico_seeds:
        with seed:
            all_of = figures(seed, carico_paper, FRESH)
            some = figures(seed, carico_paper, f"{share:.0%} of the samples lost", sample_loss=share)
            assert some[0] < 1.1 * all_of[0]
            assert some[1] < 1.1 * all_of[1]


@pytest.mark.parametrize("setting", ["telemetry_delay_s", "report_delay_s"])
def test_old_news_overload_nodes(carico_seeds, carico_paper, setting):
    """The later the scheduler sees the effect of its decisions, the more pods it puts on a node too many."""
    name = {"telemetry_delay_s": "samples", "report_delay_s": "reports"}[setting]
    for seed in carico_seeds:
        with seed:
            fresh = figures(seed, carico_paper, FRESH)
            old, older = (
                figures(seed, carico_paper, f"{name} {delay:g} s old", **{setting: delay}) for delay in (2.0, 5.0)
            )
            assert fresh[1] < old[1] < older[1]
            assert fresh[2] < old[2] < older[2]


def test_lost_reports_slow_the_job_down_and_overload_no_node(carico_seeds, carico_paper):
    """A node whose last report is older than five seconds takes no pods."""
    for seed in carico_seeds:
        with seed:
            none, some, most = (
                figures(seed, carico_paper, f"{share:.0%} of the reports lost", report_loss=share)
                for share in (0.0, 0.3, 0.6)
            )
            assert some[1] < 1.25 * none[1], "a third may be lost without much harm"
            assert most[1] < 2 * none[1]
