"""The best of several choices in hindsight."""

import math

import numpy as np
import pytest

from testbed.comparison.hindsight import against_the_best
from testbed.errors import ResultsError


def by_seed(values):
    return dict(enumerate(map(float, values)))


def test_the_choice_with_the_least_time_is_the_best():
    found = against_the_best(by_seed([10] * 6), {"low": by_seed([20] * 6), "right": by_seed([8] * 6)})
    assert (found.best, found.ratio, found.low, found.high) == ("right", *[pytest.approx(1.25)] * 3)


@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_the_interval_knows_that_the_best_was_chosen(spread):
    """Among equals the best looks better than it is."""
    rng = np.random.default_rng(3)
    held, ratios, trials = 0, [], 100
    for _ in range(trials):
        ours, *others = np.exp(rng.normal(0, 0.1, (8, 6)))
        worse = np.exp(np.linspace(0, spread, 7))
        choices = {str(n): by_seed(factor * each) for n, (factor, each) in enumerate(zip(worse, others, strict=True))}
        found = against_the_best(by_seed(ours), choices)
        held += found.low <= 1.0 <= found.high
        ratios.append(np.log(found.ratio))
    assert held >= 88  # a percentile bootstrap with the choice made anew holds it in 57 of 100
    assert abs(np.mean(ratios)) < 0.05


def test_few_seeds_have_no_interval():
    found = against_the_best(by_seed([10, 12]), {"low": by_seed([10, 10]), "right": by_seed([5, 14])})
    assert (found.best, found.low, found.high) == ("right", 0.0, math.inf)
    assert "(n = 2: no interval)" in str(found)


@pytest.mark.parametrize("choices", [{}, {"low": {9: 1.0}}])
def test_nothing_in_common_is_refused(choices):
    with pytest.raises(ResultsError, match="needs a seed that all have, got"):
        against_the_best(by_seed([1, 2]), choices)
