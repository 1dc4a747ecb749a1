"""Waits after failures double, are bounded, and have jitter."""

import random

import pytest

from carico.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "bound_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (1000, 30.0), (10**6, 30.0)]
)
def test_waits_double_up_to_a_bound_with_jitter(failures, bound_s):
    rng = random.Random(1)
    waits = [Backoff(0.5, 30.0).wait_s(failures, rng) for _ in range(200)]
    assert bound_s / 2 <= min(waits) < 0.6 * bound_s
    assert 0.9 * bound_s < max(waits) <= bound_s
    assert len(set(waits)) == 200
