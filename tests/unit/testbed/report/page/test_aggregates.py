"""The numbers behind the figures."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.report.page.aggregates import (
    SHARES,
    bin_s,
    cluster_series,
    distribution,
    extreme_series,
    grid,
    longest_s,
    node_series,
    typical,
)
from testbed.report.page.drawing import Scale, from_zero, number
from testbed.results.schema import NodeSeries, Repetition

TIMES = st.lists(st.floats(0.1, 1000.0), min_size=1, max_size=30)


def repetition(*running, seed=1, utilisation=None):
    """One whose nodes run so many pods, second by second."""
    nodes = []
    for number_of, pods in enumerate(running):
        share = utilisation[number_of] if utilisation else [pod / 10 for pod in pods]
        nothing = [None] * len(pods)
        time_s = [float(second + 1) for second in range(len(pods))]
        nodes.append(NodeSeries(f"n{number_of}", time_s, pods, share, nothing, share, *[nothing] * 4))
    return Repetition("s", "carico", seed, {}, {"j": float(seed)}, [], nodes)


@given(st.lists(TIMES, min_size=1, max_size=5))
def test_a_distribution_lies_within_its_band(samples):
    found = distribution(samples)
    assert found.count == sum(map(len, samples))
    for curve in (found.middle, found.low, found.high):
        assert (np.diff(curve) >= -1e-9).all()
    assert (found.low <= found.high).all()
    assert found.middle[0] == found.low[0] == min(map(min, samples))
    assert found.middle[-1] == found.high[-1] == max(map(max, samples))
    assert len(found.middle) == len(SHARES)


def test_what_was_not_recorded_has_no_series():
    assert cluster_series([repetition([1, 2])], "cpu_stolen", 1.0) is None


def test_nothing_has_no_distribution():
    assert distribution([]) is None
    assert distribution([[], []]) is None


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=4), st.sampled_from([1, 2, 3])
)
def test_bins_hold_the_means_of_their_seconds(pods, step):
    found = grid(repetition(*pods), "running_pods", float(step))
    for row, of_node in zip(found.values, pods, strict=True):
        assert list(row) == pytest.approx([np.mean(of_node[at : at + step]) for at in range(0, 4, step)])
    assert list(found.begin_s) == list(range(0, 4, step))


def test_many_nodes_are_taken_together_and_named_so():
    found = grid(repetition(*[[number] for number in range(9)]), "running_pods", 1.0, most_rows=3)
    assert found.rows == ["n0 to n2", "n3 to n5", "n6 to n8"]
    assert found.values.tolist() == [[1.0], [4.0], [7.0]]


def test_a_band_has_the_extremes_of_the_repetitions():
    runs = [repetition([1, 3], [3, 5], seed=1), repetition([5, 5], [5, 5], seed=2), repetition([3, 3], [3, 3], seed=3)]
    found = cluster_series(runs, "running_pods", 1.0)
    assert (found.middle.tolist(), found.low.tolist(), found.high.tolist()) == ([3, 4], [2, 3], [5, 5])
    assert found.time_s.tolist() == [0.5, 1.5]


def test_the_fullest_and_the_emptiest_node_may_change_places():
    runs = [repetition([1, 9], [5, 2])]
    assert extreme_series(runs, "running_pods", 1.0, highest=True).middle.tolist() == [5, 9]
    assert extreme_series(runs, "running_pods", 1.0, highest=False).middle.tolist() == [1, 2]


def test_what_few_repetitions_last_is_left_out():
    runs = [repetition([1, 1, 1, 1]), repetition([1]), repetition([1])]
    assert cluster_series(runs, "running_pods", 1.0).time_s.tolist() == [0.5]


def test_nodes_that_are_down_count_neither_as_idle_nor_as_busy():
    runs = [repetition([1, 1], [0, 0], utilisation=[[0.5, 0.5], [None, None]])]
    assert cluster_series(runs, "cpu_utilisation", 1.0).middle.tolist() == [0.5, 0.5]
    assert extreme_series(runs, "cpu_utilisation", 1.0, highest=False).middle.tolist() == [0.5, 0.5]
    assert node_series(runs, "cpu_utilisation", 1.0).middle.tolist() == [0.5, 0.5]


def test_what_was_not_measured_has_no_series():
    runs = [repetition([1, 1])]
    assert cluster_series(runs, "cpu_pressure", 1.0) is None
    assert node_series(runs, "pod_capacity", 1.0) is None
    assert grid(repetition(), "running_pods", 1.0) is None
    assert longest_s([repetition()]) == 0.0


def test_the_repetition_with_the_median_time_stands_for_all():
    runs = [repetition([1], seed=seed) for seed in (30, 10, 20)]
    assert typical(runs, lambda one: one.job_completion_time_s["j"]).seed == 20
    assert typical(runs, lambda one: None if one.seed < 30 else 30.0).seed == 10


@given(st.floats(0, 1e5), st.integers(1, 200))
def test_there_are_never_more_bins_than_wanted(until_s, bins):
    assert math.ceil(until_s / bin_s(until_s, bins)) <= bins


@given(st.floats(1e-3, 1e6), st.floats(1.01, 1e4), st.booleans())
def test_ticks_are_on_the_axis_and_few(low, factor, log):
    scale = Scale(low, low * factor, 0.0, 100.0, log)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 7
    assert all(-1.0 <= scale(tick) <= 101.0 for tick in ticks)
    assert len({number(tick) for tick in from_zero(low, 0.0, 1.0).ticks()}) >= 2


@given(st.floats(-1e6, 1e6), st.booleans())
def test_nothing_is_drawn_outside_its_scale(value, log):
    assert 5.0 <= Scale(0.5, 20.0, 5.0, 95.0, log)(value) <= 95.0
