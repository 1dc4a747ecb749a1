"""How sure a median is, and when one scheduler counts as slower."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import ResultsError
from testbed.results.compare import compare, compare_repetitions, median_interval

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


class TestRepetitionsThatTookTurns:
    def test_a_drift_that_both_see_does_not_hide_what_differs(self):
        reference = [10.0 + 3 * turn for turn in range(6)]
        found = compare_repetitions(reference, [1.1 * seconds + 0.01 * seconds**0.5 for seconds in reference])
        assert found.ratio == pytest.approx(1.1, abs=0.01)
        assert found.verdict == "worse"

    @given(st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4)), min_size=1, max_size=12))
    def test_seen_from_the_other_side_better_is_worse(self, pairs):
        one, other = zip(*pairs, strict=True)
        there, back = compare_repetitions(one, other), compare_repetitions(other, one)
        assert there.ratio * back.ratio == pytest.approx(1.0)
        assert there.low <= there.ratio * (1 + 1e-9)
        assert there.ratio <= there.high * (1 + 1e-9)
        if "inconclusive" not in (there.verdict, back.verdict):
            assert {there.verdict, back.verdict} == {"better", "worse"}

    @pytest.mark.parametrize("pairs", range(1, 6))
    def test_a_few_pairs_have_their_extremes_and_no_verdict(self, pairs):
        found = compare_repetitions([1.0] * pairs, [2.0 + turn for turn in range(pairs)])
        assert (found.low, found.high) == pytest.approx((2.0, 1.0 + pairs))
        assert found.verdict == "inconclusive"

    @pytest.mark.parametrize(("reference", "candidate"), [([], []), ([1.0], [1.0, 2.0])])
    def test_what_has_no_partner_is_refused(self, reference, candidate):
        with pytest.raises(ResultsError, match="compared in pairs"):
            compare_repetitions(reference, candidate)

    def test_chance_is_seldom_called_a_difference(self):
        rng = np.random.default_rng(0)
        judged = [compare_repetitions(rng.normal(100, 3, 10), rng.normal(100, 3, 10)).verdict for _ in range(100)]
        # The percentile bootstrap of ten is somewhat too sure: one in ten instead of one in twenty.
        assert judged.count("inconclusive") > 80
