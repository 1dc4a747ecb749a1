"""Raw and filtered telemetry of a node with 0, 1, 5 and 10 pods (thesis §4.2.1, §4.2.2, Fig 4.3, 4.5)."""

from __future__ import annotations

import numpy as np
import pytest

from carico.smoothing import DynamicEma

pytestmark = pytest.mark.cluster

PUBLISHED_S = 10
EXPECTED_CPU = {1: 0.25, 5: 1.0, 10: 1.0}
"""CPU utilisation of 4 CPUs while so many single-threaded pods run; the platform's own load comes on top."""


@pytest.mark.parametrize("pods", [1, 5, 10])
def test_telemetry_follows_the_pods(observe, carico_paper, pods):
    """Raw utilisation answers to the number of pods at once; filtered, it settles at the same level (Fig 4.3, 4.5)."""
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
    assert raw_level == pytest.approx(min(EXPECTED_CPU[pods] + idle, 1.0), abs=0.08)
    assert filtered_level == pytest.approx(raw_level, abs=0.05)


def test_the_filter_suppresses_container_churn(observe, carico_paper):
    """A container event spikes raw telemetry for about 200 ms; the filter lets little of that through (§4.2.2)."""
    seen = observe("single-node-contention", 1)
    pod = seen.repetition.pods[0]
    assert pod.started_s is not None
    assert pod.finished_s is not None
    ema = DynamicEma()
    filtered = np.array([ema.update(sample) for sample in seen.cpu_utilisation])
    # The burst of stopping the container stands alone: the pod no longer computes.
    stop = round(10 * pod.finished_s)
    burst = slice(stop + 1, stop + 4)
    idle = float(np.median(seen.cpu_utilisation[: 10 * PUBLISHED_S]))
    raw_rise = float(seen.cpu_utilisation[burst].max()) - idle
    before = filtered[stop]
    filtered_rise = float(filtered[burst].max() - before)
    carico_paper.row("rise of raw utilisation in the burst", raw_rise, None)
    carico_paper.row("rise of filtered utilisation in the burst", max(filtered_rise, 0.0), None)
    assert raw_rise > 0.1
    assert filtered_rise < 0.25 * raw_rise


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
