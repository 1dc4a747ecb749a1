"""How a candidate differs from a reference."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from testbed.comparison import LEAST
from testbed.comparison.difference import completion_difference, difference, in_turns
from testbed.errors import ResultsError

TIMES = st.dictionaries(st.integers(0, 20), st.floats(1.0, 1000.0), min_size=1, max_size=10)


def by_seed(values, first=0):
    return {first + place: float(value) for place, value in enumerate(values)}


@given(TIMES)
def test_nothing_differs_from_itself(times):
    found = difference(times, times)
    assert (found.effect, found.p_value, found.paired) == (1.0, 1.0, True)
    if len(times) >= LEAST:
        assert (found.low, found.high) == (1.0, 1.0)


@given(TIMES, TIMES)
def test_seen_from_the_other_side_it_is_the_other_way_round(one, other):
    there, back = difference(one, other), difference(other, one)
    assert there.effect * back.effect == pytest.approx(1.0)
    assert there.p_value == pytest.approx(back.p_value, abs=1e-9)
    assert there.low <= there.effect <= there.high


@given(st.lists(st.tuples(st.floats(0.5, 2e3), st.floats(0.5, 2e3)), min_size=LEAST, max_size=12))
def test_pairs_are_judged_as_by_scipy(pairs):
    one, other = (np.array(side) for side in zip(*pairs, strict=True))
    if np.ptp(np.log(other) - np.log(one)) < 1e-6:
        return
    found, oracle = in_turns(one, other), stats.ttest_rel(np.log(other), np.log(one))
    low, high = oracle.confidence_interval(0.95)
    assert found.p_value == pytest.approx(oracle.pvalue, abs=1e-9)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((low, high), rel=1e-6, abs=1e-9)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=LEAST, max_size=9),
    st.lists(st.floats(-1e3, 1e3), min_size=LEAST, max_size=9),
)
def test_other_seeds_are_judged_by_welchs_test(one, other):
    if min(np.ptp(one), np.ptp(other)) < 1e-3:
        return
    found = difference(by_seed(one), by_seed(other, first=100), relative=False)
    oracle = stats.ttest_ind(other, one, equal_var=False)
    low, high = oracle.confidence_interval(0.95)
    assert not found.paired
    assert found.p_value == pytest.approx(oracle.pvalue, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_pairs_count_not_what_seeds_have_in_common():
    # The seeds differ a lot, the schedulers always by a tenth.
    reference = {seed: 100.0 + 50 * seed for seed in range(3)}
    found = difference(reference, {seed: 1.1 * seconds + seed / 10 for seed, seconds in reference.items()})
    assert found.effect == pytest.approx(1.1, abs=0.002)
    assert found.p_value < 0.001


def test_a_drift_that_both_see_does_not_hide_what_differs():
    reference = [10.0 + 3 * turn for turn in range(6)]
    found = in_turns(reference, [1.1 * seconds + 0.01 * seconds**0.5 for seconds in reference])
    assert found.effect == pytest.approx(1.1, abs=0.01)
    assert found.low > 1.0


@pytest.mark.parametrize("n", range(1, LEAST))
def test_of_a_few_repetitions_nothing_is_known_but_the_effect(n):
    found = difference(by_seed([1.0] * n), by_seed([2.0] * n))
    assert not found.enough
    assert (found.effect, found.p_value) == (pytest.approx(2.0), 1.0)
    assert (found.low, found.high) == (0.0, math.inf)


def test_one_lucky_repetition_is_not_enough():
    found = difference(by_seed([100.0, 101.0, 102.0, 103.0]), {99: 50.0})
    assert not found.enough
    assert found.n == (4, 1)


def test_nothing_to_compare_with_has_no_effect():
    assert math.isnan(difference({}, {1: 2.0}).effect)


@pytest.mark.parametrize("figure", [0.0, -1.0, math.nan, math.inf])
def test_a_figure_that_has_no_ratio_is_refused(figure):
    with pytest.raises(ResultsError, match="only positive numbers can be compared, got"):
        difference({1: 1.0}, {1: figure})


def test_turns_without_a_partner_are_refused():
    with pytest.raises(ResultsError, match="compared in pairs"):
        in_turns([1.0], [1.0, 2.0])


class TestWhatDidNotComplete:
    def test_never_and_always_differ_from_three_repetitions_on(self):
        never, always = dict.fromkeys(range(3)), by_seed([9.0] * 3)
        found = completion_difference(always, never)
        assert (found.effect, found.p_value < 0.05) == (math.inf, True)
        assert completion_difference(never, always).effect == 0.0

    def test_one_failure_is_no_difference(self):
        found = completion_difference(by_seed([9.0] * 5), by_seed([9.0] * 4) | {4: None})
        assert found.p_value > 0.05

    def test_equally_often_is_no_difference(self):
        found = completion_difference({1: None, 2: 9.0, 3: 9.0}, {1: 9.0, 2: None, 3: 9.0})
        assert found.p_value == 1.0

    @pytest.mark.parametrize("n", [3, 5])
    @pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
    def test_schedulers_that_complete_equally_often_seldom_differ(self, n, share):
        chance = stats.binom(n, share).pmf

        def completed(number):
            return {seed: 1.0 if seed < number else None for seed in range(n)}

        alarms = sum(
            chance(one) * chance(other)
            for one in range(n + 1)
            for other in range(n + 1)
            if completion_difference(completed(one), completed(other)).p_value < 0.05
        )
        assert alarms <= 0.05
