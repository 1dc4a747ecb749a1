"""What is remembered of workloads: an assumption when they return, never certainty, and bounded."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand import memory as memory_module
from carico.demand.memory import Memory
from carico.demand.regression import Estimate
from carico.errors import InvalidState

FIRST = Estimate(1.0, 1.0)
RETURNING, LEARNED_S, DAY_S = 0.25, 30.0, 86400.0
REMEMBER_S = 7 * DAY_S
KNOWN = Estimate(0.2, 0.01)


@pytest.fixture
def memory():
    return Memory(FIRST, RETURNING, LEARNED_S, REMEMBER_S)


def run(memory, workload, seen, *, for_s, until):
    """Let a workload's pods run."""
    steps = round(for_s / 5)
    for step in range(steps):
        memory.note(workload, seen, 5.0, until - 5.0 * (steps - 1 - step))


def test_an_unknown_workload_is_assumed_to_cost_what_all_do(memory):
    assert memory.cost("pi") == FIRST
    assert "pi" not in memory


def test_a_nightly_job_begins_with_what_it_cost_the_night_before(memory):
    run(memory, "pi", KNOWN, for_s=600, until=600)
    memory.forget(600 + DAY_S)
    cost = memory.cost("pi")
    assert cost.mean == pytest.approx(0.2, abs=0.1)
    assert RETURNING <= cost.variance < 0.4, "doubted less than an unknown one, but not known"
    assert memory.known("pi").mean == pytest.approx(0.19, abs=0.01)
    assert memory.idle_s("pi", 600 + DAY_S) == DAY_S


def test_a_workload_that_ran_briefly_counts_for_little(memory):
    run(memory, "pi", KNOWN, for_s=10, until=10)
    assert memory.cost("pi").mean > 0.7


def test_a_workload_is_forgotten_in_the_end(memory):
    run(memory, "pi", KNOWN, for_s=600, until=600)
    memory.forget(600 + 10 * REMEMBER_S)
    assert memory.workloads == []


def test_a_workload_that_has_changed_is_learned_anew(memory):
    run(memory, "pi", KNOWN, for_s=10_000, until=10_000)
    run(memory, "pi", Estimate(2.0, 0.01), for_s=1800, until=11_800)
    assert memory.cost("pi").mean > 1.8


def test_what_no_node_knows_is_not_noted(memory):
    run(memory, "pi", Estimate(0.2, 0.999), for_s=600, until=600)
    assert memory.workloads == []


def test_the_workload_that_has_not_run_for_longest_makes_room(memory, monkeypatch):
    monkeypatch.setattr(memory_module, "MOST_WORKLOADS", 2)
    for at, workload in enumerate(["a", "b", "a", "c"]):
        memory.note(workload, KNOWN, 5.0, float(at))
    assert memory.workloads == ["a", "c"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.floats(0, 1e4),
            st.floats(0, 2),
            st.floats(0, 10),
            st.floats(0, 1e6),
        ),
        max_size=20,
    )
)
def test_memory_stays_between_what_was_seen_and_what_is_assumed(noted):
    memory, now, seen = Memory(FIRST, RETURNING, LEARNED_S, REMEMBER_S), 0.0, {"a": [], "b": []}
    for workload, mean, variance, elapsed_s, gap_s in noted:
        now += gap_s
        if variance < 1:
            seen[workload].append(max((mean - variance) / (1 - variance), 0.0))
        memory.note(workload, Estimate(mean, variance), elapsed_s, now)
    memory.forget(now)
    for workload, values in seen.items():
        mean, variance = memory.cost(workload)
        low, high = min([1.0, *values]), max([1.0, *values])
        assert low - 1e-9 <= mean <= high * (1 + 1e-9)
        assert RETURNING <= variance <= 1.0 + 1e-9


def test_a_saved_memory_goes_on_as_if_time_had_passed(memory):
    run(memory, "pi", KNOWN, for_s=600, until=600)
    saved = json.loads(json.dumps(memory.save(700.0)))
    other = Memory(FIRST, RETURNING, LEARNED_S, REMEMBER_S)
    other.take_over(other.read(saved, elapsed_s=DAY_S, now=5.0), now=5.0)
    memory.forget(700 + DAY_S)
    assert other.cost("pi") == pytest.approx(memory.cost("pi"))
    assert other.idle_s("pi", 5.0) == pytest.approx(100 + DAY_S)


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0, 14))
def test_of_two_memories_the_one_with_more_experience_is_right(here, there, days):
    memories = [Memory(FIRST, RETURNING, LEARNED_S, REMEMBER_S) for _ in range(2)]
    for memory, times, mean in zip(memories, (here, there), (0.2, 2.0), strict=True):
        run(memory, "pi", Estimate(mean, 0.01), for_s=5 * times, until=5.0 * times)
    one, other = memories
    one.take_over(one.read(other.save(5.0 * there), elapsed_s=days * DAY_S, now=5.0 * here), now=5.0 * here)
    if here or there:
        faded = there * math.exp(-days / 7)
        expected = 2.0 if faded > here else 0.2
        assert one.known("pi").mean == pytest.approx(expected, rel=0.05)
    assert len(one.workloads) == bool(here or there)


def test_what_is_taken_over_is_bounded(memory, monkeypatch):
    run(memory, "here", KNOWN, for_s=10, until=100)
    other = {f"job-{number}": [0.2, 0.01, 5.0, float(number)] for number in range(3)}
    monkeypatch.setattr(memory_module, "MOST_WORKLOADS", 3)
    memory.take_over(memory.read(other, elapsed_s=50.0, now=100.0), now=100.0)
    assert memory.workloads == ["job-1", "job-0", "here"], "what has not run for longest is left out"


@pytest.mark.parametrize(
    "state",
    [
        {"pi": [0.2, 0.01, 5.0]},
        {"pi": [0.2, 0.01, 5.0, math.nan]},
        {"pi": [-0.2, 0.01, 5.0, 1.0]},
        {"pi": "much"},
        {"p\ni": [0.2, 0.01, 5.0, 1.0]},
        {"": [0.2, 0.01, 5.0, 1.0]},
        {f"job-{number}": [0.2, 0.01, 5.0, 1.0] for number in range(memory_module.MOST_WORKLOADS + 1)},
    ],
)
def test_a_damaged_memory_is_refused_and_changes_nothing(memory, state):
    run(memory, "web", KNOWN, for_s=600, until=600)
    with pytest.raises(InvalidState, match="delete it"):
        memory.read(state, 0.0, 600.0)
    assert memory.workloads == ["web"]
