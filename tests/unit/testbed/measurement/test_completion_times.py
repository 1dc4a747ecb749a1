"""Completion times: from the lives of pods to the figures of the tables."""

import pytest

from testbed.errors import ResultsError
from testbed.measurement.completion_times import (
    completion_time_items,
    mean_job_completion_s,
    pod_completion_summary,
    pod_completion_times,
)
from testbed.results.schema import PodResult, Repetition


def pod(name, created=0.0, started=None, finished=None, outcome="succeeded", job="job"):
    return PodResult(
        name=name,
        job=job,
        node=None if started is None else "node-0",
        created_s=created,
        scheduled_s=started,
        started_s=started,
        finished_s=finished,
        outcome=outcome,
    )


PODS = [
    pod("a", created=0, started=2, finished=7),
    pod("b", created=1, started=2, finished=12),
    pod("killed", created=1, started=3, finished=4, outcome="oom_killed"),
    pod("cut-off", created=2, started=9, outcome="unfinished"),
    pod("pending", created=3, outcome="unfinished"),
    pod("other", created=0, started=1, finished=2, job="other"),
]


def repetition(pods=PODS, **completion_s):
    return Repetition(
        scenario="s", scheduler="x", seed=0, settings={}, job_completion_time_s=completion_s, pods=pods, nodes=[]
    )


def item(items, metric, job):
    (found,) = [item for item in items if item.labels == {"metric": metric, "job": job}]
    return found


class TestPodCompletionTimes:
    def test_are_of_pods_that_succeeded(self):
        assert pod_completion_times(PODS) == [5.0, 10.0, 1.0]
        assert pod_completion_times(PODS, "job") == [5.0, 10.0]
        assert pod_completion_times(PODS, "nobody") == pod_completion_times([]) == []

    def test_summary_over_repetitions(self):
        figures = pod_completion_summary([repetition(), repetition(PODS[:1])], "job")
        assert (figures["count"], figures["mean"]) == (3, pytest.approx(20 / 3, abs=1e-6))

    def test_no_pod_has_no_summary(self):
        with pytest.raises(ResultsError, match="no pod of job job succeeded"):
            pod_completion_summary([repetition(PODS[2:5])], "job")


class TestJobCompletionTimes:
    def test_mean_over_repetitions(self):
        assert mean_job_completion_s([repetition(job=10.0), repetition(job=20.0)], "job") == 15.0

    @pytest.mark.parametrize("seconds", [[], [None], [10.0, None]])
    def test_needs_every_repetition_completed(self, seconds):
        with pytest.raises(ResultsError, match=f"completed in {len(seconds) - 1 if seconds[:-1] else 0} of"):
            mean_job_completion_s([repetition(job=second) for second in seconds], "job")


class TestItems:
    items = completion_time_items(PODS, {"job": 12.0, "other": None, "unpublished": None})

    def test_pod_completion_time(self):
        figures = item(self.items, "pod_completion_time", "job")
        assert (figures.unit, figures.data["count"], figures.data["mean"]) == ("s", 2, 7.5)

    def test_pod_wait_time_is_of_all_that_started(self):
        figures = item(self.items, "pod_wait_time", "job").data
        assert (figures["count"], figures["min"], figures["max"]) == (4, 1.0, 7.0)

    def test_pod_outcome_counts_all(self):
        outcomes = item(self.items, "pod_outcome", "job")
        assert outcomes.data == {"succeeded": 2.0, "oom_killed": 1.0, "unfinished": 2.0}
        assert list(outcomes.data) == sorted(outcomes.data), "in the same order on every run"

    def test_job_completion_time_is_of_jobs_that_completed(self):
        assert item(self.items, "job_completion_time", "job").data == {"value": 12.0}
        metrics = [one.labels["metric"] for one in self.items if one.labels["job"] == "other"]
        assert metrics == ["pod_completion_time", "pod_wait_time", "pod_outcome"]

    def test_a_job_that_was_never_published_has_none(self):
        assert not [one for one in self.items if one.labels["job"] == "unpublished"]

    def test_a_job_of_which_nothing_started_has_its_outcomes_alone(self):
        (only,) = completion_time_items([pod("pending", outcome="unfinished")], {"job": None})
        assert only.data == {"unfinished": 1.0}
