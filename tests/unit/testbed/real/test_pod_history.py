"""Changes of pods in a watch become times with fractions of a second, and outcomes."""

from datetime import UTC, datetime

import pytest

from testbed.real.jobs import JOB_LABEL
from testbed.real.pod_history import PodHistory

BEGAN = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC).timestamp()


def stamp(second):
    return f"2026-11-21T12:00:{second:02d}Z"


def pod(node=None, phase="Pending", state=None, name="pi-0-0", **status):
    containers = [{"state": state}] if state else []
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {JOB_LABEL: "pi"}},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": containers} | status,
    }


def lives(*changes):
    told = PodHistory(BEGAN)
    for at_s, change in changes:
        told.changed(change, at_s)
    return told.results(["pi"])[0]


def times(result):
    return result.created_s, result.scheduled_s, result.started_s, result.finished_s


def test_every_change_is_dated_by_its_arrival():
    life = lives(
        (0.1, pod()), (0.123, pod("node-0")), (0.5, pod("node-0", "Running")), (3.75, pod("node-0", "Succeeded"))
    )
    assert times(life) == (0.1, 0.123, 0.5, 3.75)
    assert (life.node, life.outcome) == ("node-0", "succeeded")


def test_a_late_change_is_dated_by_the_latest_time_that_the_container_allows():
    running = pod("node-0", "Running", {"running": {"startedAt": stamp(1)}})
    ended = pod("node-0", "Succeeded", {"terminated": {"startedAt": stamp(1), "finishedAt": stamp(4)}})
    life = lives((0.1, pod("node-0")), (3.0, running), (9.0, ended))
    # 12:00:01 and something, that is before 12:00:02, which is 1.75 s after the scenario began.
    assert times(life)[2:] == (1.75, 4.75)


def test_a_change_that_arrives_within_the_containers_second_keeps_its_fraction():
    running = pod("node-0", "Running", {"running": {"startedAt": stamp(1)}})
    assert lives((0.1, pod("node-0")), (1.1, running)).started_s == 1.1


def test_a_pod_that_ended_before_it_was_seen_running_has_all_its_times():
    ended = pod("node-0", "Succeeded", {"terminated": {"startedAt": stamp(1), "finishedAt": stamp(2)}})
    life = lives((5.0, ended))
    assert times(life) == (5.0, 5.0, 5.0, 5.0)
    assert times(lives((0.1, pod("node-0")), (5.0, ended)))[2:] == (1.75, 2.75)


@pytest.mark.parametrize(
    ("ended", "status", "outcome"),
    [
        ({"reason": "OOMKilled", "exitCode": 137}, {}, "oom_killed"),
        ({"reason": "Error", "exitCode": 137}, {}, "failed"),
        ({"reason": "Error", "exitCode": 1}, {}, "failed"),
        ({"exitCode": 143}, {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "evicted"),
        ({}, {"reason": "Evicted"}, "evicted"),
    ],
)
def test_failures_are_told_apart(ended, status, outcome):
    assert lives((1.0, pod("node-0", "Failed", {"terminated": ended}, **status))).outcome == outcome


def test_a_deleted_pod_was_evicted_if_it_ran_and_else_is_unfinished():
    told = PodHistory(BEGAN)
    told.changed(pod("node-0", "Running"), 1.0)
    told.changed(pod(name="pi-0-1"), 1.0)
    for name in ("pi-0-0", "pi-0-1", "stranger"):
        told.deleted(f"uid-{name}", 2.0)
    assert [one.outcome for one in told.results(["pi"])] == ["evicted", "unfinished"]
    assert (told.failures, told.bound, told.finished) == (1, 0, 0)


def test_an_index_that_succeeds_twice_counts_once():
    told = PodHistory(BEGAN)
    for name in ("pi-0-1-abcde", "pi-0-1-fghij", "pi-0-11-abcde", "pi-1-1-abcde"):
        told.changed(pod("node-0", "Succeeded", name=name), 1.0)
    assert told.succeeded("pi") == 3
    assert (told.finished, told.bound) == (4, 4)


def test_pods_of_others_and_invalid_times_change_nothing():
    told = PodHistory(BEGAN)
    told.changed({"metadata": {"name": "x", "uid": "x"}}, 1.0)
    assert told.results(["pi"]) == []
    odd = pod("node-0", "Running", {"running": {"startedAt": "yesterday"}})
    assert lives((2.0, odd)).started_s == 2.0
