"""When pods that were refused are tried again."""

from hypothesis import given
from hypothesis import strategies as st

from carico.scheduling.wake_up import WakeUp


def test_a_node_that_gets_room_wakes_pods_once():
    wake_up = WakeUp(node_interval_s=10, interval_s=1)
    assert not wake_up.observe("a", 0.5, 0)
    assert wake_up.observe("a", 1.0, 1)
    assert not wake_up.observe("a", 5.0, 2)


def test_a_node_that_always_had_room_wakes_nobody():
    wake_up = WakeUp()
    assert not any(wake_up.observe("a", 1.0 + at, at) for at in range(20))


def test_a_change_that_was_held_back_is_made_up_for():
    wake_up = WakeUp(node_interval_s=10, interval_s=1)
    for node in "ab":
        wake_up.observe(node, 0, 0)
    assert wake_up.observe("a", 2, 5)
    assert not wake_up.observe("b", 2, 5.5), "too soon after another node's"
    assert wake_up.observe("b", 2, 6.5)


def test_one_that_was_held_back_and_has_no_room_any_more_is_not():
    wake_up = WakeUp(node_interval_s=10, interval_s=1)
    wake_up.observe("a", 0, 0)
    assert wake_up.observe("a", 2, 1)
    wake_up.observe("a", 0, 2)
    assert not wake_up.observe("a", 2, 3), "too soon after its own last"
    wake_up.observe("a", 0, 11)
    assert not wake_up.observe("a", 0.99, 12)


def test_room_that_came_while_nobody_waited_is_no_news_later():
    wake_up = WakeUp(node_interval_s=10, interval_s=1)
    wake_up.observe("a", 0, 0)
    assert not wake_up.observe("a", 2, 1, wanted=False)
    assert not wake_up.observe("a", 2, 2)
    wake_up.observe("a", 0, 3)
    assert wake_up.observe("a", 2, 4), "and takes nothing from the rate"


def test_a_node_that_had_room_for_others_wakes_a_pod_that_it_refused():
    wake_up = WakeUp()
    assert not wake_up.observe("a", 1.0, 0)
    wake_up.refused(["a"])
    assert wake_up.observe("a", 1.0, 1)


def test_a_node_that_left_is_forgotten():
    wake_up = WakeUp()
    wake_up.observe("a", 0, 0)
    wake_up.forget("a")
    wake_up.forget("a")
    assert not wake_up.observe("a", 9, 1)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3), st.floats(0, 2)), max_size=60))
def test_never_more_often_than_allowed_and_only_after_a_crossing(observations):
    wake_up = WakeUp(node_interval_s=5, interval_s=2)
    at, last, last_of, full = 0.0, -9.0, {}, set()
    for node, available, passed in observations:
        at += passed
        if wake_up.observe(node, available, at):
            assert available >= 1
            assert node in full
            assert at - last >= 2
            assert at - last_of.get(node, -9) >= 5
            last = last_of[node] = at
            full.discard(node)
        if available < 1:
            full.add(node)
