"""Which nodes pods of each placement may go to."""

from carico.demand.candidates import Candidates


def test_nodes_of_an_equal_mark_are_not_counted_again_in_another_order():
    candidates = Candidates()
    candidates.note("", ["a", "b"], mark=1)
    before = candidates.set_of("")
    candidates.note("", ["b", "a"], mark=1)
    assert candidates.set_of("") is before
    assert candidates.of("") == ["b", "a"]


def test_nodes_without_a_mark_replace_those_of_the_request_before():
    candidates = Candidates()
    candidates.note("", ["a", "b"], mark=1)
    candidates.note("", ["a", "c"])
    assert candidates.usable == {"a", "c"}
    candidates.note("", ["a", "b"], mark=1)
    assert candidates.usable == {"a", "b"}
