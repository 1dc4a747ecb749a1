"""What pods hold at their peak."""

import pytest

from carico.demand.peaks import Peaks
from carico.demand.regression import Estimate

FIRST = Estimate(0.5, 0.25)


@pytest.fixture
def peaks():
    return Peaks(FIRST, growth_s=2.0, peak_s=60.0)


def hold(peaks, gib, since, until, fresh=()):
    for half_seconds in range(int(2 * since), int(2 * until)):
        at = half_seconds / 2
        peaks.observe({"job": Estimate(gib(at) if callable(gib) else gib, 1e-4)}, fresh, at)


def test_a_workload_is_unknown_until_it_was_seen(peaks):
    assert peaks.cost("job") == FIRST


def test_pods_that_have_just_started_may_hold_more_before_long(peaks):
    hold(peaks, 0.1, 0, 1, fresh=("job",))
    assert peaks.cost("job") == FIRST
    hold(peaks, 0.1, 1, 2)
    assert peaks.cost("job") == pytest.approx((0.1, 1e-4))


def test_a_workload_is_unknown_while_its_pods_grow(peaks):
    hold(peaks, 0.1, 0, 2)
    hold(peaks, lambda at: 0.1 + 0.05 * (at - 2), 2, 20)
    mean, variance = peaks.cost("job")
    assert variance == FIRST.variance
    assert mean == pytest.approx(0.975)
    hold(peaks, 1.0, 20, 23)
    assert peaks.cost("job") == pytest.approx((1.0, 1e-4))


def test_pods_are_counted_at_their_peak_which_fades(peaks):
    hold(peaks, 2.0, 0, 4)
    hold(peaks, 1.0, 4, 10)
    assert 1.8 < peaks.cost("job").mean < 2.0
    hold(peaks, 1.0, 10, 400)
    assert peaks.cost("job").mean == pytest.approx(1.0, abs=0.01)


def test_a_peak_is_remembered_when_new_pods_that_hold_little_dilute_it(peaks):
    hold(peaks, 0.5, 0, 2, fresh=("job",))
    hold(peaks, lambda at: 0.5 + 0.05 * (at - 2), 2, 20)
    hold(peaks, 1.4, 20, 21)
    hold(peaks, 0.8, 21, 26)
    assert peaks.cost("job").mean == pytest.approx(1.4, abs=0.07), "they will hold as much"


def test_what_was_assumed_is_no_peak(peaks):
    hold(peaks, lambda at: 0.5 if at < 0.5 else 0.05, 0, 1.5, fresh=("job",))
    hold(peaks, 0.05, 1.5, 3)
    assert peaks.cost("job").mean == pytest.approx(0.05)


def test_workloads_that_are_gone_are_dropped(peaks):
    hold(peaks, 2.0, 0, 4)
    peaks.forget(kept=())
    assert peaks.workloads == []
    assert peaks.cost("job") == FIRST
