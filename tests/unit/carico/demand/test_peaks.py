"""What pods hold at their peak."""

import pytest

from carico.demand.peaks import Peaks
from carico.demand.regression import Estimate

FIRST = Estimate(0.5, 0.25)


@pytest.fixture
def peaks():
    return Peaks(FIRST, doubt=0.8, growth_s=2.0, peak_s=60.0)


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
    assert peaks.cost("job") == pytest.approx((0.975, (0.8 * 0.975) ** 2))
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


def test_pods_that_grow_up_to_the_known_peak_are_no_news(peaks):
    """The next wave of a job: its pods are young, but how large they become is known."""
    hold(peaks, 1.2, 0, 10)
    known = peaks.cost("job")
    hold(peaks, lambda at: 0.1 + 0.05 * (at - 10), 10, 30)
    assert peaks.cost("job") == pytest.approx(known, rel=0.1)
    hold(peaks, lambda at: 1.1 + 0.05 * (at - 30), 30, 36)
    assert peaks.cost("job") == pytest.approx((1.375, (0.8 * 1.375) ** 2)), "they hold more than ever before"


def test_pods_that_hold_less_than_earlier_ones_are_no_witnesses_of_the_peak(peaks):
    """After a restart an agent sees what pods of all ages hold, and then new pods that hold little yet."""
    hold(peaks, lambda at: 0.5 + 0.2 * at, 0, 3)
    hold(peaks, 0.2, 3, 6)
    assert peaks.cost("job") == pytest.approx((0.97, (0.8 * 0.97) ** 2), abs=0.1)


def test_a_peak_does_not_fade_while_no_pod_runs(peaks):
    hold(peaks, 1.2, 0, 10)
    for at in range(10, 300):
        peaks.observe({}, (), float(at))
    hold(peaks, 0.1, 300, 301, fresh=("job",))
    assert peaks.cost("job").mean == pytest.approx(1.2, rel=0.02)


def test_memory_that_swings_does_not_keep_an_old_peak_for_ever(peaks):
    hold(peaks, 2.0, 0, 4)
    hold(peaks, lambda at: 0.3 if at % 1 else 0.2, 4, 604)
    assert peaks.cost("job").mean <= FIRST.mean


def test_a_peak_that_is_known_is_known_after_a_restart(peaks):
    hold(peaks, 1.2, 0, 10)
    again = Peaks(FIRST, doubt=0.8, growth_s=2.0, peak_s=60.0)
    again.restore(peaks.save(), at=1000.0, most=16.0)
    hold(again, lambda at: 0.1 + 0.05 * (at - 1000), 1000, 1015)
    assert again.cost("job") == pytest.approx((1.2, 1e-4), rel=0.1)


class TestPodsThatAreRead:
    """One by one; so how fast they grow is seen, and what each held at most."""

    def test_grow_slowly_and_are_unknown_as_long_as_they_do(self, peaks):
        for second in range(60):
            hold(peaks, 0.3 + 0.005 * second, second, second + 1)
            peaks.read("job", 0.3 + 0.005 * second, 0.005, second + 0.5)
        assert peaks.cost("job") == pytest.approx((0.595, FIRST.variance), abs=0.01)
        assert not peaks.is_settled("job")
        hold(peaks, 0.6, 60, 63)
        assert peaks.is_settled("job")

    def test_do_not_grow_because_the_whole_node_is_noisy(self, peaks):
        hold(peaks, 0.03, 0, 1)
        peaks.read("job", 0.03, 0.0, 1.0)
        hold(peaks, lambda at: 0.03 if int(at) % 2 else 0.08, 1, 10)
        assert peaks.is_settled("job")

    def test_may_grow_as_far_as_others_did_that_have_ended(self, peaks):
        hold(peaks, 1.0, 0, 4)
        peaks.ended("job", 1.0)
        for second in range(4, 400):
            hold(peaks, 0.4, second, second + 1)
            peaks.read("job", 0.4, 0.05, second + 0.5)
        assert peaks.is_settled("job")
        assert peaks.cost("job").mean == pytest.approx(1.0), "pods of all ages hold less on average"

    def test_may_do_so_after_a_restart(self, peaks):
        hold(peaks, 1.0, 0, 4)
        peaks.ended("job", 1.0)
        again = Peaks(FIRST, doubt=0.8, growth_s=2.0, peak_s=60.0)
        again.restore(peaks.save(), at=10.0, most=16.0)
        hold(again, 0.4, 10, 400)
        assert again.cost("job").mean == pytest.approx(1.0)

    def test_an_earlier_version_saved_nothing_of_those_that_have_ended(self, peaks):
        hold(peaks, 1.0, 0, 4)
        peaks.ended("job", 1.0)
        again = Peaks(FIRST, doubt=0.8, growth_s=2.0, peak_s=60.0)
        again.restore({"job": peaks.save()["job"][:5]}, at=10.0, most=16.0)
        assert again.cost("job") == peaks.cost("job")
        assert again.is_settled("job")

    def test_the_peaks_of_ended_pods_are_averaged(self, peaks):
        hold(peaks, 0.1, 0, 4)
        for _ in range(50):
            peaks.ended("job", 0.2)
            peaks.ended("job", 0.6)
        hold(peaks, 0.1, 4, 400)
        assert peaks.cost("job").mean == pytest.approx(0.4, abs=0.05)

    def test_of_unknown_workloads_are_ignored(self, peaks):
        peaks.read("other", 1.0, 1.0, 0.0)
        peaks.ended("other", 1.0)
        assert peaks.workloads == []
        assert not peaks.is_settled("other")
