"""Simulated runs with nodes of several sizes and jobs of several kinds."""

from collections import Counter

import numpy as np
import pytest

from testbed.errors import InvalidSpec
from workloads.arrivals import Trace
from workloads.scenario import ClusterShape, NodePool, Requests, Scenario, checked

from .simulated_runs import QUIET, check, job, run, scenario


class TestPools:
    """Nodes that differ: in size, in speed, in how many pods they take."""

    POOLS = (
        NodePool("small", nodes=2, cores=2, memory="2Gi"),
        NodePool("large", nodes=1, cores=16, memory="32Gi"),
        NodePool("fast", nodes=1, speed=2.0, max_pods=3),
    )

    def mixed(self, *jobs):
        return checked(
            Scenario(name="mixed", description="x", jobs=list(jobs), cluster=ClusterShape(pools=list(self.POOLS))),
            "test",
        )

    def per_node(self, repetition):
        return {node.name: max(node.running_pods) for node in repetition.nodes}

    @pytest.mark.parametrize("scheduler", ["carico", "carico:variant=thesis-literal", "kube-scheduler:cpu=500m"])
    def test_every_scheduler_completes_a_job_on_them(self, scheduler):
        repetition = run(self.mixed(job(pods=60)), scheduler)
        check(self.mixed(job(pods=60)), repetition)
        assert repetition.job_completion_time_s["pi"] is not None
        assert sorted(self.per_node(repetition)) == ["fast-0", "large-0", "small-0", "small-1"]

    def test_carico_gives_a_larger_node_more_pods_without_being_told_its_size(self):
        most = self.per_node(run(self.mixed(job(pods=100)), "carico"))
        assert most["large-0"] > 2 * most["small-0"]

    def test_requests_fill_a_node_to_its_size_and_its_number_of_pods(self):
        most = self.per_node(run(self.mixed(job(pods=60)), "kube-scheduler:cpu=500m", platform_millicpu=0))
        assert most["large-0"] <= 32
        assert most["small-0"] <= 4
        assert most["fast-0"] <= 3, "max_pods"

    def test_no_scheduler_exceeds_the_number_of_pods_of_a_node(self):
        sleepy = job(pods=40, workload="stress", parameters={"cpu": 1, "cpu_load": 1, "duration_s": 30})
        for scheduler in ("carico", "kube-scheduler:cpu=10m"):
            assert self.per_node(run(self.mixed(sleepy), scheduler))["fast-0"] <= 3

    def test_work_takes_half_as_long_on_a_node_of_twice_the_speed(self):
        repetition = run(self.mixed(job(pods=8)), "kube-scheduler:cpu=1500m")
        pct = {
            name: np.mean([pod.finished_s - pod.started_s for pod in repetition.pods if pod.node == name])
            for name in ("fast-0", "large-0")
        }
        assert pct["fast-0"] == pytest.approx(pct["large-0"] / 2, rel=0.25)

    def test_a_request_must_fit_one_of_them(self):
        assert run(self.mixed(job(pods=2)), "kube-scheduler:cpu=15").job_completion_time_s["pi"] is not None
        with pytest.raises(InvalidSpec, match="a node has at most 15800m and 32568 MiB"):
            run(self.mixed(job(pods=2)), "kube-scheduler:cpu=16")


class TestJobs:
    def test_two_jobs_complete_by_themselves(self):
        of = scenario(job("first", pods=5), job("second", pods=5, start_s=20, parameters={"digits": 500}))
        repetition = run(of)
        check(of, repetition)
        for name, start in (("first", 0), ("second", 20)):
            ends = [pod.finished_s for pod in repetition.pods if pod.job == name]
            assert repetition.job_completion_time_s[name] == pytest.approx(max(ends) - start, abs=1e-5)

    def test_a_job_published_after_all_others_have_ended_is_waited_for(self):
        of = scenario(job("early", pods=2), job("late", pods=2, start_s=60))
        repetition = run(of)
        check(of, repetition)
        assert None not in repetition.job_completion_time_s.values()
        assert min(pod.created_s for pod in repetition.pods if pod.job == "late") == 60

    def test_every_pod_does_its_own_work(self):
        pods = {"workload": "task", "parameters": {"cores": 2, "cpu_seconds": 8.0}, "work": [1.0, 3.0, 0.5]}
        arrivals = Trace(at_s=[0.0, 20.0, 40.0])
        of = scenario(job(pods=3, arrivals=arrivals, **pods))
        repetition = run(of, **QUIET)
        check(of, repetition)
        took = [pod.finished_s - pod.started_s for pod in sorted(repetition.pods, key=lambda pod: pod.name)]
        assert took == pytest.approx([4.0, 12.0, 2.0], abs=0.3)

    def test_a_disturbance_does_not_hold_the_run_up(self):
        noise = job("noise", pods=1, workload="stress", parameters={"cpu": 1, "duration_s": 900}, disturbance=True)
        of = scenario(noise, job(pods=6, start_s=5))
        for scheduler in ("carico", "kube-scheduler"):
            repetition = run(of, scheduler)
            check(of, repetition)
            assert repetition.job_completion_time_s["pi"] < 60
            assert repetition.nodes[0].time_s[-1] < 60
            (disturbing,) = [pod for pod in repetition.pods if pod.job == "noise"]
            assert (disturbing.outcome, disturbing.started_s < 5) == ("unfinished", True)

    def test_a_disturbance_that_ends_is_among_the_pods_and_no_measured_job(self):
        noise = job("noise", pods=1, workload="stress", parameters={"cpu": 1, "duration_s": 5}, disturbance=True)
        repetition = run(scenario(noise, job(pods=2, start_s=15)))
        (disturbing,) = [pod for pod in repetition.pods if pod.job == "noise"]
        assert (disturbing.outcome, 5 < disturbing.finished_s < 10) == ("succeeded", True)
        assert set(repetition.job_completion_time_s) == {"pi"}
        assert {item.labels["job"] for item in repetition.data_items if "job" in item.labels} == {"pi"}

    def test_pods_that_are_killed_are_tried_again(self):
        # Two fit; the third makes one of them go, and comes back when there is room.
        hungry = job("hungry", pods=3, workload="mlp", parameters={"cpu_seconds": 8, "memory": "900Mi", "threads": 1})
        of = scenario(hungry, nodes=1, memory="2Gi")
        repetition = run(of, background_memory=0)
        check(of, repetition)
        outcomes = Counter(pod.outcome for pod in repetition.pods)
        assert outcomes["succeeded"] == 3
        assert outcomes["oom_killed"] >= 1
        for pod in repetition.pods:
            if pod.outcome == "oom_killed":
                base, _, number = pod.name.partition("-retry-")
                retry = next(p for p in repetition.pods if p.name == f"{base}-retry-{int(number or 0) + 1}")
                # After a back-off that a success of the Job ends.
                successes = [one.finished_s for one in repetition.pods if one.outcome == "succeeded"]
                ends = [at for at in successes if at > pod.finished_s]
                assert retry.created_s >= min([pod.finished_s + 10, *ends])

    def test_a_job_that_gives_up_ends_the_run_and_stops_its_pods(self):
        hungry = job("hungry", pods=6, workload="mlp", parameters={"memory": "900Mi"}, backoff_limit=1)
        of = scenario(hungry, nodes=1, memory="2Gi")
        repetition = run(of)
        check(of, repetition)
        outcomes = Counter(pod.outcome for pod in repetition.pods)
        assert repetition.job_completion_time_s == {"hungry": None}
        assert outcomes["oom_killed"] == 2
        assert outcomes["failed"] >= 1
        assert repetition.nodes[0].time_s[-1] < 60, "long before the limit"

    def test_after_one_job_gave_up_the_other_has_the_cluster(self):
        hungry = job("hungry", pods=20, workload="mlp", parameters={"memory": "900Mi"}, backoff_limit=0)
        of = scenario(hungry, job("late", pods=4, start_s=5, requests=Requests(cpu="900m")), nodes=1, memory="4Gi")
        repetition = run(of)
        check(of, repetition)
        assert repetition.job_completion_time_s["late"] is not None
        gave_up_s = max(pod.finished_s for pod in repetition.pods if pod.outcome == "failed")
        started = [pod.started_s for pod in repetition.pods if pod.job == "hungry" and pod.started_s is not None]
        assert max(started) <= gave_up_s + 1e-6, "none of its pods starts afterwards"
