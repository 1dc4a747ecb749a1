"""How sure a median is, and when one scheduler counts as slower."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.results.compare import compare, median_interval

TIMES = st.dictionaries(st.integers(0, 20), st.floats(1.0, 1000.0), min_size=1, max_size=10)


@pytest.mark.parametrize("values", [[3.0], [3.0, 5.0], [1.0, 2.0, 3.0, 5.0, 8.0], [4.0] * 9])
def test_few_or_equal_values_have_their_extremes_as_interval(values):
    assert median_interval(values) == (min(values), max(values))


def test_the_interval_is_the_same_every_time():
    values = [float(value**2) for value in range(12)]
    low, high = median_interval(values)
    assert (low, high) == median_interval(values)
    assert min(values) < low < np.median(values) < high < max(values)


@given(TIMES)
def test_nothing_differs_from_itself(times):
    assert compare(times, times) == (0.0, "same")


@given(TIMES, TIMES)
def test_seen_from_the_other_side_it_is_the_other_way_round(one, other):
    there, back = compare(one, other), compare(other, one)
    if set(one) & set(other):
        assert (1 + there[0]) * (1 + back[0]) == pytest.approx(1.0)
    else:
        assert math.isnan(there[0])
    assert back[1] == {"slower": "faster", "faster": "slower"}.get(there[1], there[1])


def test_pairs_count_not_what_seeds_have_in_common():
    # The seeds differ a lot, the schedulers always by a tenth.
    reference = {seed: 100.0 + 50 * seed for seed in range(3)}
    candidate = {seed: 1.1 * seconds + seed / 10 for seed, seconds in reference.items()}
    delta, verdict = compare(reference, candidate)
    assert delta == pytest.approx(0.1, abs=0.001)
    assert verdict == "slower"


def test_chance_is_not_called_a_difference_more_often_than_it_may_be():
    rng = np.random.default_rng(0)
    judged = [
        compare(dict(enumerate(rng.normal(100, 3, 3))), dict(enumerate(rng.normal(100, 3, 3))))[1] for _ in range(1000)
    ]
    assert 0.02 < 1 - judged.count("unclear") / len(judged) < 0.08
