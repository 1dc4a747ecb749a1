"""Latency histograms: as right as they say, the same after a merge and after JSON, and choosy about what they read."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InvalidHistogram
from workloads.histogram import LatencyHistogram

LATENCIES = st.floats(1e-6, 1e6)
ANY_LATENCIES = st.lists(st.floats(0, 1e6), max_size=50)
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
    assert histogram.sum == pytest.approx(math.fsum(latencies_s), rel=1e-12)
    assert (histogram.quantile(0), histogram.quantile(1)) == (histogram.min, histogram.max)


def test_below_a_microsecond_it_is_right_to_a_microsecond():
    assert histogram_of([0, 1e-7, 9e-7]).quantile(0.5) == pytest.approx(1e-7, abs=1e-6)


@given(ANY_LATENCIES, ANY_LATENCIES)
def test_a_merge_is_the_same_as_adding_all(some_s, others_s):
    merged = histogram_of(some_s)
    merged.merge(histogram_of(others_s))
    merged, together = merged.to_dict(), histogram_of(some_s + others_s).to_dict()
    assert merged.pop("sum") == pytest.approx(together.pop("sum"), rel=1e-12)
    assert merged == together


@given(ANY_LATENCIES)
def test_json_changes_nothing(latencies_s):
    content = histogram_of(latencies_s).to_dict()
    assert LatencyHistogram.from_dict(json.loads(json.dumps(content, allow_nan=False))).to_dict() == content


def test_one_that_was_read_can_go_on_counting():
    histogram = LatencyHistogram.from_dict(histogram_of([0.001, 0.002]).to_dict() | {"errors": 3})
    histogram.add(0.003)
    assert histogram.to_dict() == histogram_of([0.001, 0.002, 0.003]).to_dict()
    empty = LatencyHistogram.from_dict(LatencyHistogram().to_dict())
    empty.add(0.003)
    assert empty.to_dict() == histogram_of([0.003]).to_dict()


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


GOOD = histogram_of([0.001, 0.002, 0.002]).to_dict()
LOWER, UPPER, _ = GOOD["bins"][0]


@pytest.mark.parametrize("content", [None, 3, "{}", [], [GOOD]])
def test_what_is_no_object_is_refused(content):
    with pytest.raises(InvalidHistogram, match="a histogram is a JSON object, not"):
        LatencyHistogram.from_dict(content)


@pytest.mark.parametrize("key", GOOD)
def test_a_missing_key_is_named(key):
    with pytest.raises(InvalidHistogram, match=key):
        LatencyHistogram.from_dict({name: value for name, value in GOOD.items() if name != key})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version is 2, this version reads 1"),
        ({"schema_version": True}, "schema_version is True"),
        ({"schema_version": [1] * 100}, r"schema_version is \[1, 1, .*\.\.\., this version"),
        ({"unit": "s"}, "unit is 's', this version reads 'ms'"),
        ({"bins": {}}, "bins is {}; it must be a list"),
        ({"bins": []}, "count is 3, the bins hold 0"),
        ({"bins": [], "count": 0}, "of an empty histogram must be null, null and 0"),
        ({"bins": [*GOOD["bins"], GOOD["bins"][0]]}, "is there twice"),
        *(
            ({"bins": [bad]}, "is no bin")
            for bad in (
                *(None, 7, "abc", [], [LOWER, UPPER], [LOWER, UPPER, 1, 1], [UPPER, LOWER, 3], [LOWER, LOWER, 3]),
                *([LOWER, UPPER, n] for n in (0, -1, 1.5, True, "3", None, 10**400)),
                *([lower, UPPER, 3] for lower in (math.nan, -1, 0, "1", None, 1e-320, LOWER * 1.001)),
                *([LOWER, upper, 3] for upper in (math.nan, math.inf, 10**400, UPPER * 1.02)),
            )
        ),
        ({"count": 4}, "count is 4, the bins hold 3"),
        ({"count": "3"}, "count is '3'"),
        *(
            ({key: value}, f"{key} is .*; it must be a number of milliseconds")
            for key in ("min", "max", "sum")
            for value in (None, "1", True, math.nan, math.inf, -1, 10**400)
        ),
        ({"min": 0.5}, "not in the first and the last bin"),
        ({"max": 3.0}, "not in the first and the last bin"),
        ({"min": GOOD["max"], "max": GOOD["min"]}, "not in the first and the last bin"),
        ({"sum": 2.9}, "3 latencies from 1.0 to 2.0 cannot have it"),
        ({"sum": 6.1}, "3 latencies from 1.0 to 2.0 cannot have it"),
    ],
)
def test_hostile_content_is_refused(changes, message):
    with pytest.raises(InvalidHistogram, match=message):
        LatencyHistogram.from_dict(GOOD | changes)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(GOOD)), inner),
    max_leaves=10,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(GOOD, JSON)))
def test_whatever_is_read_gives_a_histogram_or_its_own_error(changes):
    content = GOOD | changes
    try:
        histogram = LatencyHistogram.from_dict(content)
    except InvalidHistogram:
        return
    assert histogram.to_dict()["bins"] == content["bins"]
