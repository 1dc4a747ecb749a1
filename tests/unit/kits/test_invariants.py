"""The invariants of runs on kind notice what must not happen, and allow what may."""

import pytest

from testbed.results.schema import PodResult, Repetition
from tests.cluster.kind.invariants import every_index_completed, every_pod_completed_once, no_pod_was_bound_twice


def run(*pods, completed_s=9.0):
    """A job of two pods; each of these is an index and an outcome."""
    lives = [
        PodResult(
            name=f"pi-0-{index}-{number}",
            job="pi",
            node="node-a",
            created_s=0.0,
            scheduled_s=1.0,
            started_s=2.0,
            finished_s=9.0,
            outcome=outcome,
        )
        for number, (index, outcome) in enumerate(pods)
    ]
    jobs = {"jobs": [{"name": "pi", "pods": 2, "disturbance": False}]}
    return Repetition("s", "carico", 0, jobs, job_completion_time_s={"pi": completed_s}, pods=lives, nodes=[])


ONCE = [(0, "succeeded"), (1, "succeeded")]


def test_a_job_that_completed_once_passes_all():
    every_pod_completed_once(run(*ONCE))
    every_index_completed(run(*ONCE))


def test_a_failed_pod_that_was_replaced_is_allowed_on_demand():
    replaced = run(*ONCE, (1, "failed"))
    every_pod_completed_once(replaced, replaced=True)
    with pytest.raises(AssertionError, match="outcome='failed'"):
        every_pod_completed_once(replaced)


def test_an_index_that_succeeded_twice_is_no_completion_once():
    twice = run(*ONCE, (1, "succeeded"))
    every_index_completed(twice)
    with pytest.raises(AssertionError, match="'pi-0-1': 2"):
        every_pod_completed_once(twice, replaced=True)


@pytest.mark.parametrize("invariant", [every_pod_completed_once, every_index_completed])
def test_an_index_that_never_succeeded_is_noticed_though_another_one_did_twice(invariant):
    with pytest.raises(AssertionError, match="pi: 1 of 2 indices succeeded"):
        invariant(run((0, "succeeded"), (0, "succeeded")))


@pytest.mark.parametrize("invariant", [every_pod_completed_once, every_index_completed])
def test_a_job_without_a_completion_time_did_not_complete(invariant):
    with pytest.raises(AssertionError):
        invariant(run(*ONCE, completed_s=None))


def test_a_pod_on_two_nodes_was_bound_twice():
    no_pod_was_bound_twice({"u1": {"a"}, "u2": {"a"}})
    with pytest.raises(AssertionError, match=r"bound more than once: \{'u2': \['a', 'b'\]\}"):
        no_pod_was_bound_twice({"u1": {"a"}, "u2": {"b", "a"}})
    with pytest.raises(AssertionError, match="no pod was seen"):
        no_pod_was_bound_twice({})
