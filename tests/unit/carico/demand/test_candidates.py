"""Which nodes pods of each placement may go to."""

from hypothesis import given
from hypothesis import strategies as st

from carico.demand import candidates as candidates_module
from carico.demand.candidates import Candidates


def test_nodes_of_an_equal_mark_are_not_counted_again_in_another_order():
    candidates = Candidates()
    candidates.note("", ["a", "b"], mark=1)
    before = candidates.of("")
    candidates.note("", ["b", "a"], mark=1)
    assert candidates.of("") is before == {"a", "b"}


def test_nodes_without_a_mark_replace_those_of_the_request_before():
    candidates = Candidates()
    candidates.note("", ["a", "b"], mark=1)
    candidates.note("", ["a", "c"])
    assert candidates.usable == {"a", "c"}
    candidates.note("", ["a", "b"], mark=1)
    assert candidates.usable == {"a", "b"}


def test_placements_with_the_same_nodes_take_the_memory_of_one():
    candidates = Candidates()
    for number in range(100):
        candidates.note(f"claim-{number}", [f"node-{index}" for index in range(5)])
    assert len({id(candidates.of(f"claim-{number}")) for number in range(100)}) == 1


def test_the_sizes_of_all_sets_together_are_bounded(monkeypatch):
    monkeypatch.setattr(candidates_module, "MOST_NODES", 1000)
    candidates = Candidates()
    for number in range(30):
        candidates.note(f"zone-{number}", [f"node-{number}-{index}" for index in range(100)])
    known = [number for number in range(30) if candidates.of(f"zone-{number}") is not None]
    assert known == list(range(20, 30)), "those that were noted last"
    assert len(candidates.usable) == 1000
    candidates.note("everywhere", [f"node-{index}" for index in range(5000)])
    assert len(candidates.of("everywhere")) == 5000, "the latest is always known"


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from("abcd"), min_size=1, unique=True), st.booleans()),
        max_size=20,
    )
)
def test_the_latest_candidates_of_each_placement_count(notes):
    candidates, latest = Candidates(), {}
    for placement, nodes, marked in notes:
        candidates.note(placement, nodes, mark=tuple(sorted(nodes)) if marked else None)
        latest[placement] = frozenset(nodes)
        assert {each: candidates.of(each) for each in latest} == latest
        assert candidates.usable == frozenset().union(*latest.values())
