"""Latency histograms are as exact as they say, and JSON has all of them."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InvalidHistogram
from workloads.histogram import LatencyHistogram

LATENCIES = st.floats(1e-6, 1e6)
QUANTILES = st.sampled_from([0, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1]) | st.floats(0, 1)


def histogram_of(latencies_s):
    histogram = LatencyHistogram()
    for latency_s in latencies_s:
        histogram.add(latency_s)
    return histogram


@given(latencies_s=st.lists(LATENCIES, min_size=1, max_size=200), q=QUANTILES)
def test_quantiles_are_within_one_per_cent_of_the_nearest_rank(latencies_s, q):
    expected = np.quantile(latencies_s, q, method="inverted_cdf")
    assert histogram_of(latencies_s).quantile(q) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_of_what_services_answer(seed):
    latencies_s = np.random.default_rng(seed).lognormal(mean=-7, sigma=1, size=20_000)
    histogram = histogram_of(latencies_s.tolist())
    for q in (0.001, 0.5, 0.9, 0.95, 0.99, 0.9999):
        assert histogram.quantile(q) == pytest.approx(np.quantile(latencies_s, q, method="inverted_cdf"), rel=0.01)
    assert len(histogram.to_dict()["bins"]) < 600


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_count_minimum_maximum_and_sum_are_exact(latencies_s):
    histogram = histogram_of(latencies_s)
    assert histogram.count == len(latencies_s)
    assert histogram.min == pytest.approx(min(latencies_s), rel=1e-15)
    assert histogram.max == pytest.approx(max(latencies_s), rel=1e-15)
    assert histogram.to_dict()["sum"] == pytest.approx(1000 * math.fsum(latencies_s), rel=1e-12)
    assert (histogram.quantile(0), histogram.quantile(1)) == (histogram.min, histogram.max)


def test_below_a_microsecond_it_is_right_to_a_microsecond():
    assert histogram_of([0, 1e-7, 9e-7]).quantile(0.5) == pytest.approx(1e-7, abs=1e-6)


@given(st.lists(st.floats(0, 1e6), max_size=50))
def test_json_has_every_latency_in_its_bin(latencies_s):
    histogram = histogram_of(latencies_s)
    content = json.loads(json.dumps(histogram.to_dict(), allow_nan=False))
    assert (content["count"], content["sum"]) == (len(latencies_s), pytest.approx(1000 * math.fsum(latencies_s)))
    assert content["min"] == min((1000 * one for one in latencies_s), default=None)
    assert content["max"] == max((1000 * one for one in latencies_s), default=None)
    for lower, upper, count in content["bins"]:
        slack = 1e-9 * upper
        inside = sum(lower + slack <= 1000 * one < upper - slack for one in latencies_s)
        near = sum(lower - slack <= 1000 * one <= upper + slack for one in latencies_s)
        assert inside <= count <= near
    assert sum(count for *_, count in content["bins"]) == len(latencies_s)


@pytest.mark.parametrize("latency_s", [-1e-9, 1e6 + 1, math.inf, math.nan])
def test_latencies_that_make_no_sense_are_refused_and_not_counted(latency_s):
    histogram = histogram_of([1])
    with pytest.raises(InvalidHistogram, match="must be from 0 to 1e"):
        histogram.add(latency_s)
    assert histogram.to_dict() == histogram_of([1]).to_dict()


def test_quantiles_that_make_no_sense_are_refused():
    with pytest.raises(InvalidHistogram, match="without latencies"):
        LatencyHistogram().quantile(0.5)
    for q in (-0.1, 99, math.nan):
        with pytest.raises(InvalidHistogram, match="must be from 0 to 1, such as"):
            histogram_of([1]).quantile(q)
