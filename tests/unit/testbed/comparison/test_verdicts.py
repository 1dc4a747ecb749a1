"""Verdicts on whole tables: few false ones among equals, and true ones where something differs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from testbed.comparison.difference import completion_difference, difference, in_turns
from testbed.comparison.verdicts import holm, judged, undecided


@given(st.lists(st.floats(0.0, 1.0), max_size=20))
def test_holm_adjusts_as_its_definition_says(p_values):
    adjusted = holm(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = [(len(p_values) - rank) * p_values[index] for rank, index in enumerate(order)]
    expected = np.minimum(1.0, np.maximum.accumulate(steps)) if steps else []
    assert [adjusted[index] for index in order] == pytest.approx(list(expected))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_a_correction_never_makes_anything_surer(p_values):
    assert all(after >= before for before, after in zip(p_values, holm(p_values), strict=True))
    # Holm's method rejects at least what Bonferroni's does.
    assert all(
        after <= min(1.0, len(p_values) * before) for before, after in zip(p_values, holm(p_values), strict=True)
    )


@pytest.mark.parametrize("schedulers", [2, 5, 8])
@pytest.mark.parametrize("repetitions", [3, 5, 20])
def test_tables_of_equal_schedulers_seldom_find_a_difference(schedulers, repetitions):
    rng = np.random.default_rng(schedulers * repetitions)
    tables = 400

    def alarms(draw):
        found = 0
        for _ in range(tables):
            times = draw((schedulers, repetitions))
            verdicts = judged([in_turns(times[0], other) for other in times[1:]])
            found += any(verdict in ("regressed", "improved") for verdict in verdicts)
        return found

    bound = stats.binom(tables, 0.05).ppf(0.999)
    assert alarms(lambda shape: 100 * np.exp(rng.normal(0, 0.03, shape))) <= bound
    assert alarms(lambda shape: 100 * np.exp(0.02 * rng.standard_t(3, shape))) <= bound


def test_what_differs_is_found_in_a_large_table():
    rng = np.random.default_rng(1)
    same = rng.normal(100, 1, (8, 5))
    verdicts = judged([in_turns(same[0], other) for other in (*same[1:], 1.1 * same[0] + rng.normal(0, 0.5, 5))])
    assert verdicts[-1] == "regressed"


def test_more_is_better_where_the_metric_says_so():
    slower = in_turns([1.0, 1.1, 1.2], [2.0, 2.2, 2.5])
    assert judged([slower], less_is_better=[False]) == ["improved"]
    assert judged([slower]) == ["regressed"]


def test_where_neither_direction_is_better_nothing_is_worse_and_nothing_corrected_for():
    slower = in_turns([1.0, 1.1, 1.2], [2.0, 2.2, 2.5])
    same = in_turns([1.0, 1.1, 1.2], [1.0, 1.1, 1.2])
    assert judged([slower, same], less_is_better=[None, None]) == ["inconclusive", "ok"]
    barely = in_turns([1.0, 1.1, 1.3], [1.15, 1.2, 1.55])
    assert 0.025 < barely.p_value < 0.05
    assert judged([barely, slower], less_is_better=[True, None]) == ["regressed", "inconclusive"]
    assert judged([barely, barely]) == ["inconclusive", "inconclusive"], "here there are two chances of an alarm"


@pytest.mark.parametrize(("factor", "verdict"), [(1.01, "ok"), (1.05, "regressed"), (0.95, "improved")])
def test_a_certain_difference_within_the_margin_is_ok(factor, verdict):
    times = [100.0, 104.0, 97.0, 101.0]
    assert judged([in_turns(times, [factor * time + 0.01 * place for place, time in enumerate(times)])]) == [verdict]


def test_a_difference_that_is_no_ratio_has_no_margin():
    zeros, ones = dict.fromkeys(range(4), 0.0), dict.fromkeys(range(4), 1.0)
    assert judged([difference(zeros, zeros, relative=False)]) == ["ok"]
    assert judged([difference(zeros, ones, relative=False)]) == ["regressed"]


def test_wide_intervals_are_inconclusive():
    assert judged([in_turns([1.0, 2.0, 4.0], [2.0, 1.0, 4.5])]) == ["inconclusive"]


@pytest.mark.parametrize(
    ("found", "less_is_better", "reason"),
    [
        (in_turns([1.0] * 2, [9.0] * 2), None, "n = 2 is too small: each side needs 3 repetitions or more"),
        (in_turns([1.0, 1.1, 1.2], [2.0, 2.2, 2.5]), None, "neither direction of the metric is better"),
        (
            in_turns([1.0, 2.0, 4.0], [2.0, 1.0, 4.5]),
            True,
            "the difference is not within 2 %, and chance may explain it: more repetitions may decide",
        ),
        (
            difference(dict.fromkeys(range(4), 0.0), {0: 0.0, 1: 0.0, 2: 0.0, 3: 1.0}, relative=False),
            True,
            "the difference is not certainly none, and chance may explain it: more repetitions may decide",
        ),
        (
            completion_difference({1: 9.0, 2: 9.0, 3: 9.0}, {1: 9.0, 2: 9.0, 3: None}),
            True,
            "some repetitions did not complete, which chance may explain: more repetitions may decide",
        ),
    ],
    ids=["few", "no direction", "wide", "no ratio", "not completed"],
)
def test_what_is_inconclusive_says_why(found, less_is_better, reason):
    assert judged([found], less_is_better=[less_is_better]) == ["inconclusive"]
    assert undecided(found, less_is_better) == reason


@pytest.mark.parametrize("n", [1, 2])
def test_few_repetitions_are_inconclusive(n):
    assert judged([in_turns([1.0] * n, [9.0] * n)]) == ["inconclusive"]
