"""The kernel's running averages of pressure."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kits.pressure import avg10

shares = st.lists(st.floats(0, 1), min_size=1, max_size=200)


def test_approaches_a_lasting_level_with_its_time_constant():
    for window_s in (10.0, 60.0):
        shown = avg10(np.full(6000, 0.5), window_s=window_s)
        at_constant = shown[round(10 * window_s) - 1]
        assert at_constant == pytest.approx(0.5 * (1 - math.exp(-1)))
        assert shown[-1] == pytest.approx(0.5, rel=1e-3)


def test_changes_every_two_seconds_only():
    shown = avg10(np.linspace(0, 1, 100))
    assert np.flatnonzero(np.diff(shown)).tolist() == [18, 38, 58, 78, 98]


def test_too_few_samples_show_nothing_yet():
    assert avg10(np.ones(19)).tolist() == [0.0] * 19
    assert avg10([]).size == 0


@given(shares)
def test_stays_between_nothing_and_the_largest_share(stalled):
    shown = avg10(stalled)
    assert shown.shape == (len(stalled),)
    assert (shown >= 0).all()
    assert (shown <= max(stalled) + 1e-12).all()
