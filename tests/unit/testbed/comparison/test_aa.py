"""The A/A check: what the comparison says of a scheduler and itself."""

import math

import msgspec
import pytest

from testbed.comparison.aa import aa_rows, aa_verdict, noise, repetitions_for_ok
from testbed.experiment.plan import Plan, Twice
from testbed.report.aa import aa_sentence, aa_table
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def twice(n=5, seed=2001, factor=lambda number: 1.0, pods=3):
    """The repetitions of one scheduler; factors are for the second measurement, by its number."""
    spec = parse_spec("carico")
    plan = Plan(load_scenario("pi-2000").scaled(pods=pods), (spec,), n, 1001, twice=Twice(spec, seed))
    found = []
    for one in plan.check(FakeProvider()).run():
        slower = factor(one.seed - seed) if one.of_aa_check else 1.0
        items = [
            msgspec.structs.replace(item, data={name: slower * value for name, value in item.data.items()})
            for item in one.data_items
        ]
        found.append(msgspec.structs.replace(one, data_items=items))
    return found


def test_nothing_that_was_measured_once_is_checked():
    assert aa_rows([one for one in twice() if not one.of_aa_check]) == []
    assert aa_sentence([]) == "A/A check: NOT MEASURED: no experiment was run"


def test_equal_measurements_are_ok():
    rows = aa_rows(twice(seed=1001))
    assert [row.verdict for row in rows] == ["ok", "ok"]
    assert aa_verdict(rows) == "ok"
    assert all(noise(row) == 0.0 for row in rows)


def test_measurements_of_the_same_seeds_are_compared_in_pairs_even_if_one_has_more():
    more = [one for one in twice(n=8, seed=1001) if not (one.of_aa_check and one.seed > 1005)]
    assert [row.compared.difference.paired for row in aa_rows(more)] == [True, True]
    assert not any(row.compared.difference.paired for row in aa_rows(twice()))


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_whatever_direction_a_difference_has_the_check_fails(factor):
    rows = aa_rows(twice(seed=1001, factor=lambda number: factor + 0.01 * number))
    assert aa_verdict(rows) == "regressed"
    assert "a scheduler differs from itself: pi-2000 · 3 pods" in aa_sentence(rows)


def test_noise_is_the_far_end_of_the_interval_and_enough_repetitions_hide_it():
    rows = aa_rows(twice(n=5, seed=1001, factor=lambda number: 1.0 + 0.02 * (number - 2)))
    worst = max(rows, key=noise)
    assert aa_verdict(rows) == "inconclusive"
    assert 0.02 < noise(worst) < 0.1
    enough = repetitions_for_ok(worst)
    assert 5 < enough < 100
    assert f"with about {enough} repetitions it is within 2 %" in aa_sentence(rows)


def test_below_three_repetitions_nothing_is_known_of_noise():
    rows = aa_rows(twice(n=2))
    assert all(math.isinf(noise(row)) for row in rows)
    assert [repetitions_for_ok(row) for row in rows] == [None, None]
    assert "too few repetitions" in aa_sentence(rows)


def test_the_table_fits_80_columns():
    assert max(map(len, aa_table(aa_rows(twice())))) <= 80
