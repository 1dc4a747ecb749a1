"""Raw and filtered telemetry of a node with 0, 1, 5 and 10 pods (thesis §4.2.1, §4.2.2, Fig 4.3, 4.5)."""

from __future__ import annotations

import numpy as np
import pytest

from carico.model.smoothing import DynamicEma
from workloads.scenario import ClusterShape, JobSpec, Scenario

pytestmark = pytest.mark.cluster

PUBLISHED_S = 10
EXPECTED_CPU = {1: 0.25, 5: 1.0, 10: 1.0}
"""CPU utilisation of 4 CPUs by number of single-threaded pods; the platform's own load comes on top."""
LEVEL_TOLERANCE = 0.08
"""The platform's load fluctuates by half of its mean of 0.05, and every pod adds 0.004."""
SUPPRESSED = 1 / 3
"""With the slow factor of 0.1 a fifth of a burst of two samples passes; a third leaves room for the platform's load."""


@pytest.mark.parametrize("pods", [1, 5, 10])
def test_telemetry_follows_the_pods(observe, carico_paper, pods):
    """Raw utilisation follows the number of pods; filtered utilisation settles at the same level (Fig 4.3, 4.5)."""
    seen = observe("single-node-contention", pods)
    running = np.repeat(np.array(seen.repetition.nodes[0].running_pods), 10)
    size = min(running.size, seen.cpu_utilisation.size)
    ema = DynamicEma()
    filtered = np.array([ema.update(sample) for sample in seen.cpu_utilisation[:size]])
    idle = float(np.median(seen.cpu_utilisation[: 10 * PUBLISHED_S]))
    settled = np.flatnonzero(running[:size] == pods)[10:]
    raw_level, filtered_level = (
        float(np.median(series[settled])) for series in (seen.cpu_utilisation[:size], filtered)
    )
    carico_paper.row("raw CPU utilisation, 0 pods", idle, None)
    carico_paper.row(f"raw CPU utilisation, {pods} pods", raw_level, None)
    carico_paper.row(f"filtered CPU utilisation, {pods} pods", filtered_level, None)
    assert idle < 0.15
    assert raw_level == pytest.approx(min(EXPECTED_CPU[pods] + idle, 1.0), abs=LEVEL_TOLERANCE)
    assert filtered_level == pytest.approx(raw_level, abs=LEVEL_TOLERANCE / 2)


def test_the_filter_suppresses_container_churn(observe, carico_paper):
    """A container event makes a spike of about 200 ms in raw telemetry; the filter passes little of it (§4.2.2)."""
    # The pod hardly computes, so only the start and stop of its container are visible, one core for 0.2 s each.
    sleeper = JobSpec(
        name="sleeper",
        workload="stress",
        parameters={"cpu": 1, "cpu_load": 1, "duration_s": 10},
        pods=1,
        start_s=PUBLISHED_S,
    )
    scenario = Scenario(name="churn", description="a pod that sleeps", jobs=[sleeper], cluster=ClusterShape(nodes=1))
    seen = observe(scenario)
    ema = DynamicEma()
    filtered = np.array([ema.update(sample) for sample in seen.cpu_utilisation])
    idle = slice(0, 10 * PUBLISHED_S)
    raw_rise, filtered_rise = (
        float(series[idle.stop :].max() - np.median(series[idle])) for series in (seen.cpu_utilisation, filtered)
    )
    carico_paper.row("rise of raw utilisation in the burst", raw_rise, None)
    carico_paper.row("rise of filtered utilisation in the burst", filtered_rise, None)
    assert raw_rise > 0.2, "one core of four"
    assert filtered_rise < SUPPRESSED * raw_rise


def test_the_filter_follows_a_lasting_change_within_a_second(observe, carico_paper):
    """A change that lasts over 300 ms switches the filter to its fast factor (§4.2.2)."""
    seen = observe("single-node-contention", 10)
    ema = DynamicEma()
    filtered = np.array([ema.update(sample) for sample in seen.cpu_utilisation])
    raw_full = int(np.flatnonzero(seen.cpu_utilisation > 0.95)[0])
    filtered_full = int(np.flatnonzero(filtered > 0.9)[0])
    lag_s = (filtered_full - raw_full) / 10
    carico_paper.row("lag of the filter behind a step to full CPU", lag_s, None, "s")
    assert lag_s <= 1.0
