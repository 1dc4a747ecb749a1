"""Raw and filtered telemetry of a node with 0, 1, 5 and 10 pods (thesis §4.2.1, §4.2.2, Fig 4.3, 4.5)."""

from __future__ import annotations

import numpy as np
import pytest

from carico.model.smoothing import DynamicEma
from workloads.scenario import ClusterShape, JobSpec, Scenario

from .predictions import cases, claim

pytestmark = pytest.mark.cluster

SCENARIO = "single-node-contention"
PUBLISHED_S = 10
EXPECTED_CPU = {1: 0.25, 5: 1.0, 10: 1.0}
"""CPU utilisation of 4 CPUs by number of single-threaded pods; the platform's own load comes on top."""
LEVEL_TOLERANCE = 0.08
"""The platform's load fluctuates by half of its mean of 0.05, and every pod adds 0.004."""
SUPPRESSED = 1 / 3
"""With the slow factor of 0.1 a fifth of a burst of two samples passes; a third leaves room for the platform's load."""


def filtered(samples):
    ema = DynamicEma()
    return np.array([ema.update(sample) for sample in samples])


@pytest.mark.parametrize("pods", [1, 5, 10])
def test_telemetry_follows_the_pods(observe, carico_seeds, carico_paper, pods):
    """Raw utilisation follows the number of pods at once; filtered, it settles at the same level (Fig 4.3, 4.5)."""
    for seed in carico_seeds:
        with seed:
            seen = observe(seed.seed, SCENARIO, pods)
            running = np.repeat(np.array(seen.repetition.nodes[0].running_pods), 10)
            size = min(running.size, seen.cpu_utilisation.size)
            raw = seen.cpu_utilisation[:size]
            idle = float(np.median(raw[: 10 * PUBLISHED_S]))
            settled = np.flatnonzero(running[:size] == pods)[10:]
            levels = {name: float(np.median(one[settled])) for name, one in (("raw", raw), ("filtered", filtered(raw)))}
            carico_paper.row("raw CPU utilisation, 0 pods", idle, None)
            for name, value in levels.items():
                carico_paper.row(f"{name} CPU utilisation, {pods} pods", value, None)
            assert idle < 0.15
            assert levels["raw"] == pytest.approx(min(EXPECTED_CPU[pods] + idle, 1.0), abs=LEVEL_TOLERANCE)
            assert levels["filtered"] == pytest.approx(levels["raw"], abs=LEVEL_TOLERANCE / 2)


@claim("§4.2.2, Fig 4.5", "the filter suppresses the spikes of container events")
@pytest.mark.parametrize("what", cases(("utilisation", "pressure")))
def test_the_filter_suppresses_container_churn(observe, carico_seeds, carico_paper, what):
    """A container event makes raw telemetry spike for about 200 ms; the filter lets little of the spike through."""
    # These pods hardly compute, so the telemetry shows their containers being started and stopped.
    sleeper = JobSpec(
        name="sleeper",
        workload="stress",
        parameters={"cpu": 1, "cpu_load": 1, "duration_s": 10},
        pods=1,
        start_s=PUBLISHED_S,
    )
    scenario = Scenario(name="churn", description="a pod that sleeps", jobs=[sleeper], cluster=ClusterShape(nodes=1))
    for seed in carico_seeds:
        with seed:
            raw = getattr(observe(seed.seed, scenario), f"cpu_{what}")
            idle = slice(0, 10 * PUBLISHED_S)
            raw_rise, filtered_rise = (
                float(one[idle.stop :].max() - np.median(one[idle])) for one in (raw, filtered(raw))
            )
            carico_paper.row(f"rise of raw {what} in the burst", raw_rise, None)
            carico_paper.row(f"rise of filtered {what} / of raw {what}", filtered_rise / raw_rise, None)
            assert filtered_rise < SUPPRESSED * raw_rise


@claim("§4.2.2", "the filter follows a change that lasts within a second")
def test_the_filter_follows_a_lasting_change(observe, carico_seeds, carico_paper):
    """A change that lasts over 300 ms switches the filter to its fast factor."""
    for seed in carico_seeds:
        with seed:
            raw = observe(seed.seed, SCENARIO, 10).cpu_utilisation
            lag_s = (int(np.flatnonzero(filtered(raw) > 0.9)[0]) - int(np.flatnonzero(raw > 0.95)[0])) / 10
            carico_paper.row("lag of the filter behind a step to full CPU", lag_s, None, "s")
            assert lag_s <= 1.0
