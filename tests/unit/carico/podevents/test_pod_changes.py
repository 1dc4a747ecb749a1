"""Sets of running pods become changes that add up."""

from hypothesis import given
from hypothesis import strategies as st

from carico.podevents.pod_changes import RunningPods
from carico.testing import ManualClock


@given(st.lists(st.frozensets(st.sampled_from("abcdef")), min_size=1))
def test_the_changes_add_up_to_every_set_and_none_is_more_than_needed(sets):
    changes = []
    clock = ManualClock()
    pods = RunningPods(lambda change, at: changes.append((change, at)), clock)
    before = frozenset()
    for running in sets:
        clock.advance(1.0)
        told = len(changes)
        pods.become(running)
        assert sum(change for change, _ in changes) == len(running)
        assert len(changes) - told == len(before ^ running)
        assert all(at == clock.now() and change in (-1, 1) for change, at in changes[told:])
        before = running


def test_a_callback_that_raises_leaves_nothing_to_be_told_twice():
    changes = []

    def refuse_once(change, at):
        changes.append(change)
        if len(changes) == 1:
            raise RuntimeError("busy")

    pods = RunningPods(refuse_once, ManualClock())
    for _ in range(2):
        try:
            pods.become({"a"})
        except RuntimeError:
            continue
    assert changes == [1]
