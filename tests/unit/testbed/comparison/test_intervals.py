"""How uncertain a figure over repetitions is."""

import numpy as np
import pytest

from testbed.comparison.intervals import median_interval


@pytest.mark.parametrize("values", [[3.0], [3.0, 5.0], [1.0, 2.0, 3.0, 5.0, 8.0], [4.0] * 9])
def test_few_or_equal_values_have_their_extremes_as_interval(values):
    assert median_interval(values) == (min(values), max(values))


def test_the_interval_is_the_same_every_time():
    values = [float(value**2) for value in range(12)]
    low, high = median_interval(values)
    assert (low, high) == median_interval(values)
    assert min(values) < low < np.median(values) < high < max(values)
