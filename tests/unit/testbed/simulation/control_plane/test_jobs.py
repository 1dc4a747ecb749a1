"""The Job controller: creations, retries, and when it gives up. The test plays the cluster."""

import pytest
import simpy

from testbed.simulation.control_plane.api import ApiServer
from testbed.simulation.control_plane.jobs import JobController
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import JobSpec, Requests


class Controller:
    """A Job controller, and the times at which it created pods."""

    def __init__(self, *jobs, requests=lambda job: job.requests, **parameters):
        self.env = simpy.Environment(initial_time=-30)
        self.api = ApiServer(self.env)
        self.created = []
        self.api.watch(created=lambda pod: self.created.append((round(self.env.now, 6), pod.name)))
        self.controller = JobController(self.env, self.api, SimulationParameters(**parameters), requests)
        for job in jobs:
            self.controller.publish(job, [float(index + 1) for index in range(job.pods)])

    def pod(self, name):
        return next(pod for pod in self.api.pods if pod.name == name)

    def end(self, name, outcome="succeeded"):
        pod = self.pod(name)
        pod.outcome = outcome
        self.api.show_finished(pod)

    @property
    def over(self):
        return self.controller.all_over.triggered


def job(name="job", pods=1, **fields):
    return JobSpec(name=name, workload="pi", pods=pods, **fields)


class TestCreation:
    def test_a_burst_then_the_clients_rate(self):
        jobs = Controller(job(pods=50), pod_creations_per_s=20, pod_creations_burst=30)
        jobs.env.run(10)
        times = [at for at, _ in jobs.created]
        assert times[:30] == pytest.approx([0.0] * 30)
        assert times[30:] == pytest.approx([0.05 * i for i in range(1, 21)])
        assert [name for _, name in jobs.created] == [f"job-{index:04d}" for index in range(50)]

    def test_pods_are_what_the_job_says(self):
        one = job(pods=3, requests=Requests(cpu="250m", memory="64Mi"), start_s=2)
        jobs = Controller(one)
        jobs.env.run(5)
        assert [(pod.created_s, pod.work, pod.millicpu, pod.memory_bytes) for pod in jobs.api.pods] == [
            (2, work, 250, 64 * 2**20) for work in (1.0, 2.0, 3.0)
        ]
        assert all(pod.job is one for pod in jobs.api.pods)

    def test_the_scheduler_under_test_may_change_the_requests(self):
        jobs = Controller(job(requests=Requests(cpu="250m")), requests=lambda job: Requests(cpu="1"))
        jobs.env.run(1)
        assert jobs.api.pods[0].millicpu == 1000

    def test_pods_are_created_as_they_arrive(self):
        env = Controller()
        env.controller.publish(job(pods=4, start_s=5), [1.0] * 4, [0.0, 0.0, 2.5, 10.0])
        env.env.run(50)
        assert [at for at, _ in env.created] == pytest.approx([5, 5, 7.5, 15])
        assert [name for _, name in env.created] == [f"job-{index:04d}" for index in range(4)]

    def test_a_job_is_not_over_before_its_last_pod_has_come(self):
        env = Controller()
        env.controller.publish(job(pods=2), [1.0] * 2, [0.0, 100.0])
        env.env.run(1)
        env.end("job-0000")
        assert not env.over
        env.env.run(101)
        env.end("job-0001")
        assert env.over

    def test_jobs_share_the_client(self):
        jobs = Controller(job("a", pods=5), job("b", pods=5), pod_creations_per_s=10, pod_creations_burst=1)
        jobs.env.run(10)
        assert [at for at, _ in jobs.created] == pytest.approx([i / 10 for i in range(10)])
        assert [name[0] for _, name in jobs.created] == list("ab" * 5), "neither waits for the other's last pod"


class TestParallelism:
    def test_no_more_pods_at_once(self):
        jobs = Controller(job(pods=5, parallelism=2))
        jobs.env.run(1)
        assert len(jobs.created) == 2
        jobs.end("job-0001")
        jobs.env.run(2)
        assert [name for _, name in jobs.created] == ["job-0000", "job-0001", "job-0002"]

    def test_the_next_pod_is_created_when_one_is_over_and_all_of_them_complete(self):
        jobs = Controller(job(pods=5, parallelism=1))
        for index in range(5):
            jobs.env.run(index + 1)
            jobs.end(f"job-{index:04d}")
        assert [at for at, _ in jobs.created] == pytest.approx([0, 1, 2, 3, 4])
        assert jobs.over

    def test_a_failed_pod_leaves_its_place_to_another(self):
        jobs = Controller(job(pods=3, parallelism=1))
        jobs.env.run(1)
        jobs.end("job-0000", "failed")
        jobs.env.run(30)
        assert jobs.created[1:] == [(11.0, "job-0001")]
        jobs.end("job-0001")
        jobs.env.run(31)
        jobs.end("job-0002")
        jobs.env.run(32)
        assert [name for _, name in jobs.created[2:]] == ["job-0002", "job-0000-retry-1"]


class TestPodFailurePolicy:
    def test_ignored_kills_do_not_count_and_do_not_hold_up(self):
        jobs = Controller(job(backoff_limit=0, on_oom_kill="ignore"))
        jobs.env.run(1)
        for retry in range(5):
            jobs.end("job-0000" + (f"-retry-{retry}" if retry else ""), "oom_killed")
            jobs.env.run(retry + 2)
        assert [at for at, _ in jobs.created] == pytest.approx([0, 1, 2, 3, 4, 5])
        jobs.end("job-0000-retry-5", "failed")
        assert jobs.over, "another failure counts"

    def test_a_kill_may_fail_the_job_at_once(self):
        jobs = Controller(job(pods=3, on_oom_kill="fail-job"))
        jobs.env.run(1)
        jobs.end("job-0000", "failed")
        assert not jobs.over
        jobs.end("job-0001", "oom_killed")
        assert jobs.over
        assert jobs.pod("job-0002").deleted


class TestCompletion:
    def test_is_when_every_pod_has_succeeded(self):
        jobs = Controller(job(pods=2))
        jobs.env.run(1)
        jobs.end("job-0000")
        assert not jobs.over
        jobs.end("job-0001")
        assert jobs.over

    def test_needs_every_job(self):
        jobs = Controller(job("early"), job("late", start_s=100))
        jobs.env.run(1)
        jobs.end("early-0000")
        jobs.env.run(99)
        assert not jobs.over, "a job that is not even published is waited for"
        jobs.env.run(101)
        jobs.end("late-0000")
        assert jobs.over

    def test_does_not_need_disturbances(self):
        jobs = Controller(job("noise", pods=2, disturbance=True), job("measured"))
        jobs.env.run(1)
        jobs.end("noise-0000")
        assert not jobs.over
        jobs.end("measured-0000")
        assert jobs.over
        jobs.end("noise-0001")

    def test_a_job_that_gave_up_is_over_as_well(self):
        jobs = Controller(job("bad", backoff_limit=0), job("good"))
        jobs.env.run(1)
        jobs.end("bad-0000", "oom_killed")
        assert not jobs.over
        jobs.end("good-0000")
        assert jobs.over


class TestRetries:
    def test_back_off_longer_after_every_failure(self):
        jobs = Controller(job(backoff_limit=20))
        jobs.env.run(1)
        gaps = []
        for retry in range(9):
            failed_at = jobs.env.now
            jobs.end("job-0000" + (f"-retry-{retry}" if retry else ""), "oom_killed")
            jobs.env.run(failed_at + 1000)
            created_at, name = jobs.created[-1]
            assert name == f"job-0000-retry-{retry + 1}"
            gaps.append(created_at - failed_at)
        assert gaps == pytest.approx([10, 20, 40, 80, 160, 320, 600, 600, 600])

    def test_a_success_ends_the_back_off(self):
        jobs = Controller(job(pods=9))
        jobs.env.run(1)
        for index in range(3):
            jobs.end(f"job-{index:04d}", "oom_killed")
        jobs.env.run(2)
        assert len(jobs.created) == 9
        jobs.end("job-0003")
        jobs.env.run(3)
        assert [name for _, name in jobs.created[9:]] == [f"job-{index:04d}-retry-1" for index in range(3)]
        jobs.end("job-0004", "failed")
        jobs.env.run(30)
        assert jobs.created[12:] == [(13.0, "job-0004-retry-1")], "the count begins anew"

    def test_hold_up_all_pods_of_the_job(self):
        jobs = Controller(job(pods=5), job("other", pods=5), pod_creations_per_s=2, pod_creations_burst=1)
        jobs.env.run(1.4)
        assert [name for _, name in jobs.created] == ["job-0000", "other-0000", "job-0001"]
        jobs.end("job-0000", "failed")
        jobs.env.run(11.3)
        assert sum(name.startswith("job-") for _, name in jobs.created) == 2
        jobs.env.run(20)
        assert [name for _, name in jobs.created if name.startswith("job-")][2:] == [
            "job-0002",
            "job-0003",
            "job-0004",
            "job-0000-retry-1",
        ]

    @pytest.mark.parametrize("outcome", ["oom_killed", "failed"])
    def test_do_the_same_work_again(self, outcome):
        jobs = Controller(job(pods=3))
        jobs.env.run(1)
        jobs.end("job-0001", outcome)
        jobs.env.run(20)
        retry = jobs.pod("job-0001-retry-1")
        assert (retry.work, retry.uid, retry.outcome) == (2.0, "job-0001-retry-1", "unfinished")

    def test_count_towards_completion(self):
        jobs = Controller(job(pods=2))
        jobs.env.run(1)
        jobs.end("job-0000", "failed")
        jobs.end("job-0001")
        jobs.env.run(20)
        assert not jobs.over
        jobs.end("job-0000-retry-1")
        assert jobs.over

    def test_a_thousand_failures_are_not_too_many(self):
        jobs = Controller(job(pods=1100, backoff_limit=10_000), pod_creations_burst=10_000)
        jobs.env.run(1)
        for index in range(1100):
            jobs.end(f"job-{index:04d}", "oom_killed")
        jobs.env.run(1000)
        assert len(jobs.created) == 2200


class TestGivingUp:
    def test_is_at_one_failure_more_than_the_limit(self):
        jobs = Controller(job(pods=5, backoff_limit=2))
        jobs.env.run(1)
        for index in range(3):
            assert not jobs.over
            jobs.end(f"job-{index:04d}", "oom_killed")
        assert jobs.over
        jobs.env.run(1000)
        assert len(jobs.created) == 5, "what was about to be retried is not"

    def test_stops_running_pods_and_deletes_waiting_ones(self):
        jobs = Controller(job(pods=4, backoff_limit=0))
        jobs.env.run(1)
        stopped = []
        jobs.pod("job-0001").stop = lambda: stopped.append("job-0001")
        jobs.end("job-0003")
        jobs.end("job-0000", "oom_killed")
        assert stopped == ["job-0001"]
        deleted = [pod.name for pod in jobs.api.pods if pod.deleted]
        assert deleted == ["job-0001", "job-0002"], "what is over already is not deleted"

    def test_ends_creation(self):
        jobs = Controller(job(pods=1000, backoff_limit=0), pod_creations_per_s=10, pod_creations_burst=1)
        jobs.env.run(1.05)
        jobs.end("job-0000", "failed")
        jobs.env.run(100)
        assert len(jobs.created) == 11

    def test_is_for_good(self):
        jobs = Controller(job(pods=2, backoff_limit=0))
        jobs.env.run(1)
        jobs.end("job-0000", "failed")
        jobs.end("job-0001", "failed")  # stopped because of the other one
        jobs.env.run(1000)
        assert len(jobs.created) == 2

    def test_leaves_other_jobs_alone(self):
        jobs = Controller(job("bad", pods=2, backoff_limit=0), job("good", pods=2))
        jobs.env.run(1)
        jobs.end("bad-0000", "failed")
        assert [pod.name for pod in jobs.api.pods if pod.deleted] == ["bad-0001"]
