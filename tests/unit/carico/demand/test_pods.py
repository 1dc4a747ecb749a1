"""Mean numbers of pods over exactly the interval of the telemetry, against an oracle that counts moment by moment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.pods import CHURN, PodCounts
from carico.errors import InvalidInput

times = st.floats(0, 10, allow_nan=False, allow_subnormal=False)
lives = st.lists(st.tuples(times, times, st.sampled_from(["pi", "web", None])), max_size=8)


@given(lives, st.lists(times.filter(lambda at: at > 0.01), min_size=1, max_size=5, unique=True))
def test_means_are_those_of_the_numbers_of_pods_over_time(lives, ends):
    counts = PodCounts(churn_s=0.0, since=0.0)
    events = sorted(
        (at, kind, number)
        for number, life in enumerate(lives)
        for kind, at in (("start", min(life[:2])), ("stop", max(life[:2])))
    )
    begin = 0.0
    for end in sorted(ends):
        if end - begin < 1e-3:
            continue
        while events and events[0][0] <= end:
            at, kind, number = events.pop(0)
            if kind == "start":
                counts.started(str(number), lives[number][2], at)
            else:
                counts.stopped(str(number), at)
        means = counts.means(end)
        for workload in ("pi", "web"):
            expected = sum(
                max(min(max(life[:2]), end) - max(min(life[:2]), begin), 0.0) for life in lives if life[2] == workload
            ) / (end - begin)
            assert means.get(workload, 0.0) == pytest.approx(expected, abs=1e-9)
        begin = end


def test_a_pod_counts_as_churn_for_a_while_after_its_start_and_its_end():
    counts = PodCounts(churn_s=0.3, since=0.0)
    counts.started("pod", "pi", at=0.9)
    assert counts.means(until=1.0)[CHURN] == pytest.approx(0.1)
    assert counts.means(until=2.0)[CHURN] == pytest.approx(0.2), "0.2 s of its start are in this interval"
    counts.stopped("pod", at=2.5)
    assert counts.means(until=3.0) == pytest.approx({"pi": 0.5, CHURN: 0.3})


def test_what_is_told_late_counts_from_the_beginning_of_the_interval():
    counts = PodCounts(churn_s=0.0, since=0.0)
    counts.means(until=1.0)
    counts.started("pod", "pi", at=0.2)
    assert counts.means(until=2.0) == {"pi": 1.0}


def test_what_is_younger_than_the_telemetry_counts_in_the_next_interval():
    counts = PodCounts(churn_s=0.0, since=0.0)
    counts.started("pod", "pi", at=1.5)
    assert counts.now == {"pi": 1}
    assert counts.means(until=1.0) == {}
    assert counts.means(until=2.0) == {"pi": 0.5}


def test_a_pod_is_counted_once_whatever_is_told_twice():
    counts = PodCounts(churn_s=0.0, since=0.0)
    for at in (0.0, 0.5):
        counts.started("pod", "pi", at)
    assert counts.stopped("stranger", 0.5) is None
    assert counts.means(until=1.0) == {"pi": 1.0}
    assert counts.stopped("pod", 1.0) == "pi"
    assert counts.stopped("pod", 1.0) is None
    assert counts.means(until=2.0) == {}


def test_pods_of_the_platform_run_but_belong_to_no_workload():
    counts = PodCounts(churn_s=0.3, since=0.0)
    counts.started("daemon", None, at=0.0)
    assert counts.running == {"daemon": None}
    assert counts.now == {}
    assert set(counts.means(until=1.0)) == {CHURN}


def test_the_oldest_pod_of_a_workload_is_known():
    counts = PodCounts(churn_s=0.0, since=0.0)
    counts.started("new", "pi", at=5.0)
    counts.started("old", "pi", at=1.0)
    counts.started("daemon", None, at=0.0)
    assert counts.eldest() == {"pi": 1.0}
    counts.stopped("old", at=6.0)
    assert counts.eldest() == {"pi": 5.0}


@pytest.mark.parametrize("until", [0.0, -1.0, np.nan])
def test_an_interval_must_not_be_empty(until):
    with pytest.raises(InvalidInput, match="an interval must end after it began"):
        PodCounts(churn_s=0.0, since=0.0).means(until)


@pytest.mark.parametrize("told", [0.5, 1.5])
def test_a_pod_of_which_more_is_known_later_counts_as_that_from_then_on(told):
    counts = PodCounts(churn_s=0.3, since=0.0)
    counts.started("pod", "pi", at=0.0)
    if told > 1:
        assert counts.means(until=1.0) == {"pi": 1.0, CHURN: 0.3}
    counts.identified("pod", "web")
    assert counts.means(until=2.0)["web"] == 1.0
    assert counts.running == {"pod": "web"}
    assert counts.stopped("pod", 2.0) == "web"
    assert set(counts.means(until=3.0)) == {CHURN}


def test_pods_that_are_unknown_or_the_platforms_are_not_identified():
    counts = PodCounts(churn_s=0.0, since=0.0)
    counts.started("daemon", None, at=0.0)
    counts.identified("daemon", "web")
    counts.identified("stranger", "web")
    assert counts.running == {"daemon": None}
    assert counts.means(until=1.0) == {}
