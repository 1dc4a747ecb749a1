"""Sets of running pods become changes that add up, each with the pod that it is about."""

from hypothesis import given
from hypothesis import strategies as st

from carico.podevents.pod_changes import RunningPods
from carico.podevents.source import PodChange
from carico.testing import ManualClock

NAMED = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "jobs/a", "jobs/b"]))


@given(st.lists(NAMED, min_size=1))
def test_what_is_told_is_the_difference_with_stops_first_in_the_order_of_uids(listings):
    told = []
    clock = ManualClock()
    pods = RunningPods(told.append, clock)
    before = {}
    for running in listings:
        clock.advance(1.0)
        told.clear()
        pods.replace(running)
        assert told == [
            *(PodChange(-1, clock.now(), uid, before[uid]) for uid in "abcdef" if uid in before and uid not in running),
            *(
                PodChange(+1, clock.now(), uid, running[uid])
                for uid in "abcdef"
                if uid in running and uid not in before
            ),
        ]
        before = running


def test_the_callers_mapping_may_change_afterwards():
    told, running = [], {"a": "jobs/a"}
    pods = RunningPods(told.append, ManualClock())
    pods.replace(running)
    running["b"] = "jobs/b"
    pods.replace(running)
    assert [change.uid for change in told] == ["a", "b"]


def test_a_name_that_becomes_known_later_is_no_news_but_told_at_the_end():
    told = []
    pods = RunningPods(told.append, ManualClock())
    for running in ({"a": ""}, {"a": "jobs/a"}, {}):
        pods.replace(running)
    assert [change[::3] for change in told] == [(+1, ""), (-1, "jobs/a")]


def test_a_callback_that_raises_leaves_nothing_to_be_told_twice():
    changes = []

    def refuse_once(told):
        changes.append(told.change)
        if len(changes) == 1:
            raise RuntimeError("busy")

    pods = RunningPods(refuse_once, ManualClock())
    for _ in range(2):
        try:
            pods.replace({"a": ""})
        except RuntimeError:
            continue
    assert changes == [1]
