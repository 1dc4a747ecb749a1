"""Summaries: the figures of the thesis's tables."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measurement.statistics import summary

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


def test_of_a_known_sample():
    assert summary([4.0, 1.0, 3.0, 2.0]) == {
        "count": 4.0,
        "mean": 2.5,
        "std": 1.290994,
        "min": 1.0,
        "p25": 1.75,
        "p50": 2.5,
        "p75": 3.25,
        "p90": 3.7,
        "p95": 3.85,
        "p99": 3.97,
        "max": 4.0,
    }


def test_of_one_value():
    assert summary([7.0]) == {"count": 1.0, "std": 0.0} | dict.fromkeys(
        ("mean", "min", "p25", "p50", "p75", "p90", "p95", "p99", "max"), 7.0
    )


def test_figures_are_plain_numbers_rounded_to_a_millionth():
    figures = summary(np.array([1 / 3, 2 / 3]))
    assert all(type(figure) is float for figure in figures.values())
    assert figures["min"] == 0.333333


@given(values)
def test_agrees_with_the_standard_library(sample):
    figures = summary(sample)
    assert figures["mean"] == pytest.approx(statistics.fmean(sample), abs=1e-5)
    assert figures["p50"] == pytest.approx(statistics.median(sample), abs=1e-5)
    if len(sample) > 1:
        assert figures["std"] == pytest.approx(statistics.stdev(sample), abs=1e-5)
        low, middle, high = statistics.quantiles(sample, n=4, method="inclusive")
        assert [figures[name] for name in ("p25", "p50", "p75")] == pytest.approx([low, middle, high], abs=1e-5)


@given(values)
def test_percentiles_are_in_order(sample):
    figures = summary(sample)
    ordered = [figures[name] for name in ("min", "p25", "p50", "p75", "p90", "p95", "p99", "max")]
    assert ordered == sorted(ordered)
    assert figures["count"] == len(sample)
