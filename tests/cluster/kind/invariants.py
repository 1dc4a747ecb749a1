"""Invariants of every run, under any other load on the machine."""

from __future__ import annotations

from collections import Counter

from testbed.results.schema import Repetition


def every_pod_completed_once(run: Repetition, replaced: bool = False) -> None:
    """Assert that every job completed, each index exactly once; with `replaced`, the job may also have failed pods."""
    for job, wanted in run.measured_jobs.items():
        mine = [pod for pod in run.pods if pod.job == job]
        succeeded = [pod for pod in mine if pod.outcome == "succeeded"]
        # job-NUMBER-INDEX-SUFFIX
        indices = Counter(pod.name.rpartition("-")[0] for pod in succeeded)
        others = [pod for pod in mine if pod.outcome != "succeeded"]
        assert len(succeeded) == wanted, f"{job}: {len(succeeded)} of {wanted} pods succeeded; others: {others}"
        assert set(indices.values()) == {1}, f"{job}: {indices}"
        assert all(pod.node is not None for pod in succeeded)
        assert replaced or not others, f"{job}: {others}"
        assert run.job_completion_time_s[job] is not None
