"""Arrival patterns: how many pods come when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.arrivals import Burst, Diurnal, Poisson, StaggeredBursts, Trace
from workloads.errors import InvalidScenario
from workloads.scenario import Scenario, read_scenario

PATTERNS = [
    Burst(),
    Poisson(2.0),
    StaggeredBursts(3, 60.0),
    Diurnal(0.5, swing=1.0, period_s=100.0),
    Trace([float(second) for second in range(60)]),
]


def times(pattern, count, seed=1):
    return pattern.times(count, np.random.default_rng(seed))


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: type(pattern).__name__)
class TestAnyPattern:
    @given(count=st.integers(1, 60), seed=st.integers(0, 2**32))
    def test_is_a_time_for_every_pod_in_order_and_the_same_every_time(self, pattern, count, seed):
        found = times(pattern, count, seed)
        assert len(found) == count
        assert found == sorted(found)
        assert found[0] >= 0
        assert found == times(pattern, count, seed)


@pytest.mark.parametrize(
    "pattern", [Poisson(2.0), Diurnal(0.5, swing=1.0, period_s=100.0), Trace([3.0, 1.0, 2.0] * 20)]
)
def test_fewer_pods_are_the_first_ones(pattern):
    assert times(pattern, 20) == pytest.approx(times(pattern, 60)[:20])


def test_a_burst_is_at_once():
    assert times(Burst(), 3) == [0.0, 0.0, 0.0]


def test_gaps_of_a_poisson_process_are_exponential():
    gaps = np.sort(np.diff(times(Poisson(4.0), 2000)))
    ranks = (np.arange(gaps.size) + 0.5) / gaps.size
    # Kolmogorov and Smirnov's test at 1 %; importing scipy's takes a second.
    assert np.abs(1.0 - np.exp(-4.0 * gaps) - ranks).max() + 0.5 / gaps.size < 1.63 / np.sqrt(gaps.size)


@pytest.mark.parametrize(
    ("pods", "bursts", "sizes"),
    [(9, 3, [3, 3, 3]), (10, 3, [4, 3, 3]), (5, 4, [2, 1, 1, 1]), (2, 5, [1, 1]), (7, 1, [7])],
)
def test_there_are_as_many_bursts_as_asked_for_and_they_are_as_equal_as_can_be(pods, bursts, sizes):
    found = times(StaggeredBursts(bursts, 60.0), pods)
    assert [found.count(60.0 * burst) for burst in range(len(sizes))] == sizes


def test_a_day_begins_and_ends_in_the_trough():
    found = np.array(times(Diurnal(10.0, swing=0.8, period_s=400.0), 8000))
    counts, _ = np.histogram(found, bins=8, range=(0.0, 400.0))
    # The rate's integral over an eighth of the period, at the trough and at the peak.
    trough, peak = (
        10.0 * 50 * (1 + sign * 0.8 * np.sin(np.pi / 8) / (np.pi / 8) * np.cos(np.pi / 8)) for sign in (-1, 1)
    )
    assert counts[[0, 7]] == pytest.approx([trough] * 2, abs=4 * np.sqrt(trough))
    assert counts[[3, 4]] == pytest.approx([peak] * 2, abs=4 * np.sqrt(peak))


def test_without_a_swing_a_day_is_a_poisson_process():
    assert times(Diurnal(4.0, swing=0.0), 50) == pytest.approx(times(Poisson(4.0), 50))


def test_a_trace_may_be_out_of_order():
    assert times(Trace([5.0, 1.0, 3.0]), 2) == [1.0, 3.0]


YAML = """
name: stream
description: pods that come one by one
jobs: [{name: pi, workload: pi, pods: 3, arrivals: %s}]
"""


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("{pattern: burst}", Burst()),
        ("{pattern: poisson, rate_per_s: 2}", Poisson(2)),
        ("{pattern: staggered, bursts: 2, every_s: 30}", StaggeredBursts(2, 30)),
        ("{pattern: diurnal, mean_per_s: 1}", Diurnal(1)),
        ("{pattern: trace, at_s: [0, 1.5, 3]}", Trace([0, 1.5, 3])),
    ],
)
def test_a_scenario_names_its_pattern(text, pattern):
    scenario = read_scenario(YAML % text, "stream.yaml")
    assert isinstance(scenario, Scenario)
    assert scenario.jobs[0].arrivals == pattern


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{pattern: weekly}",
            "line 4: pattern: one of burst, poisson, staggered, diurnal, trace is needed, got 'weekly'",
        ),
        ("{rate_per_s: 2}", "arrivals: pattern is missing: one of burst, "),
        ("{pattern: poisson}", "arrivals: rate_per_s is missing: a number above 0 "),
        ("{pattern: poisson, rate_per_s: 0}", "rate_per_s: a number above 0 and up to 1000000 is needed, got 0"),
        ("{pattern: diurnal, mean_per_s: 1, swing: 1.1}", "swing: a number from 0 to 1 is needed, got 1.1"),
        ("{pattern: trace, at_s: [1, 2]}", "job pi: 3 pods need as many arrival times, at_s has 2"),
        ("{pattern: trace, at_s: [1, -2, 3]}", "at_s[1]: a number from 0 to 1000000 is needed, got -2"),
    ],
)
def test_what_is_no_pattern_is_refused(text, message):
    with pytest.raises(InvalidScenario) as refused:
        read_scenario(YAML % text, "stream.yaml")
    assert message in str(refused.value)
