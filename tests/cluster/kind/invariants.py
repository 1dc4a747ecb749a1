"""Invariants of every run, under any other load on the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from testbed.results.schema import Repetition


def every_pod_completed_once(run: Repetition, replaced: bool = False) -> None:
    """Assert that every job completed, each index exactly once; with `replaced`, the job may also have failed pods."""
    _every_index_completed(run, most=1)
    for job in run.measured_jobs:
        others = [pod for pod in run.pods if pod.job == job and pod.outcome != "succeeded"]
        assert replaced or not others, f"{job}: {others}"


def every_index_completed(run: Repetition) -> None:
    """Assert that every job completed, each index at least once.

    Kubernetes promises no more if the API server fails: a Job's controller that has not seen yet which pods it has made
    may make a second one for an index, and both may succeed.
    """
    _every_index_completed(run, most=None)


def no_pod_was_bound_twice(nodes: Mapping[str, Collection[str]]) -> None:
    """Assert that some pods were seen, by UID, and each of them on one node only."""
    assert nodes, "no pod was seen on a node"
    twice = {uid: sorted(names) for uid, names in nodes.items() if len(names) > 1}
    assert not twice, f"pods were bound more than once: {twice}"


def _every_index_completed(run: Repetition, most: int | None) -> None:
    for job, wanted in run.measured_jobs.items():
        mine = [pod for pod in run.pods if pod.job == job]
        succeeded = [pod for pod in mine if pod.outcome == "succeeded"]
        # job-NUMBER-INDEX-SUFFIX
        indices = Counter(pod.name.rpartition("-")[0] for pod in succeeded)
        others = [pod for pod in mine if pod.outcome != "succeeded"]
        assert len(indices) == wanted, f"{job}: {len(indices)} of {wanted} indices succeeded; others: {others}"
        assert most is None or max(indices.values()) <= most, f"{job}: {indices}"
        assert all(pod.node is not None for pod in succeeded)
        assert run.job_completion_time_s[job] is not None
