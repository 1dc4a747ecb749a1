"""The simulated cluster as a whole: the same bytes for the same seed, and nothing that a real cluster could not do."""

import hashlib
import math
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico.variants import DEFAULT_VARIANT
from testbed.clusters.simulated import SimulatedCluster, SimulatedProvider
from testbed.errors import InvalidSetting, InvalidSpec, UsageError
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.utilisation import running_pods
from testbed.results.schema import Repetition
from testbed.schedulers.spec import parse_spec
from testbed.simulation.parameters import SimulationParameters
from workloads.arrivals import Trace
from workloads.scenario import ClusterShape, JobSpec, NodeChange, NodePool, Requests, Scenario, checked, load_scenario

QUIET = {"background_cores": 0, "background_cores_per_pod": 0}


def scenario(*jobs, nodes=2, limit_s=3600.0, node_changes=(), **shape):
    return checked(
        Scenario(
            name="small",
            description="a test's",
            jobs=list(jobs),
            cluster=ClusterShape(nodes=nodes, **shape),
            limit_s=limit_s,
            node_changes=list(node_changes),
        ),
        "test",
    )


def job(name="pi", pods=10, workload="pi", **fields):
    return JobSpec(name=name, workload=workload, pods=pods, **fields)


def cluster(of, scheduler="kube-scheduler", seed=1, observer=None, telemetry=None, **parameters):
    parameters = SimulationParameters(**{"warm_up_s": 2.0} | parameters)
    return SimulatedCluster(of, parse_spec(scheduler), seed, parameters, observer, telemetry)


def run(of, scheduler="kube-scheduler", seed=1, **parameters):
    return cluster(of, scheduler, seed, **parameters).run()


SMALL = scenario(job(pods=24, requests=Requests(cpu="500m")))


@cache
def small(scheduler, seed=1):
    return run(SMALL, scheduler, seed)


def check(of, repetition):
    """What holds of every run, whatever was asked for."""
    jobs, names = {job.name: job for job in of.jobs}, of.cluster.node_names
    assert len({pod.name for pod in repetition.pods}) == len(repetition.pods)
    for pod in repetition.pods:
        times = [pod.created_s, pod.scheduled_s, pod.started_s, pod.finished_s]
        known = [time for time in times if time is not None]
        assert known == sorted(known), pod
        assert times[: len(known)] == known, pod
        assert jobs[pod.job].start_s <= pod.created_s
        assert known[-1] <= of.limit_s + 1e-6
        over = pod.outcome != "unfinished" and pod.started_s is not None  # lost pods may never have started
        assert (pod.finished_s is not None) == over, pod
        assert (pod.node is None) == (pod.scheduled_s is None)
        allowed = {"any": names, "first": names[:1], "rest": names[1:]}
        assert pod.node is None or pod.node in allowed[jobs[pod.job].placement]
    for name, one in jobs.items():
        succeeded = Counter(
            pod.name.partition("-retry-")[0]
            for pod in repetition.pods
            if pod.job == name and pod.outcome == "succeeded"
        )
        assert set(succeeded.values()) <= {1}, "no pod completes twice"
        assert len(succeeded) <= one.pods
        if not one.disturbance:
            assert (len(succeeded) == one.pods) == (repetition.job_completion_time_s[name] is not None)
    assert set(repetition.job_completion_time_s) == {job.name for job in of.jobs if not job.disturbance}
    assert [node.name for node in repetition.nodes] == names
    seconds = repetition.nodes[0].time_s
    assert seconds == pytest.approx([second + 1.0 for second in range(len(seconds))])
    for node in repetition.nodes:
        assert node.time_s == seconds
        series = {name: getattr(node, name) for name in node.__struct_fields__ if name != "name"}
        assert {len(values) for values in series.values()} == {len(seconds)}
        for name in ("cpu_utilisation", "cpu_pressure", "memory_utilisation"):
            assert all(value is None or 0 <= value <= 1 for value in series[name])
            assert of.node_changes or None not in series[name]
        assert all(capacity is None or 0 <= capacity <= 110 for capacity in node.pod_capacity)
        for second, count in zip(seconds, node.running_pods, strict=True):
            mine = [pod for pod in repetition.pods if pod.node == node.name and pod.started_s is not None]
            ends = [(pod.started_s, math.inf if pod.finished_s is None else pod.finished_s) for pod in mine]
            # A pod may start or end at this very moment, or have ended in a tick that began before it.
            surely = sum(start < second - 1e-6 and second + 1e-6 < end for start, end in ends)
            perhaps = sum(start <= second + 1e-6 and second - 1e-6 <= end for start, end in ends)
            assert surely <= count <= perhaps
    assert msgspec.json.decode(msgspec.json.encode(repetition), type=Repetition) == repetition


class TestDeterminism:
    @pytest.mark.parametrize("scheduler", ["carico", "kube-scheduler"])
    def test_the_same_seed_gives_the_same_bytes(self, scheduler):
        assert msgspec.json.encode(run(SMALL, scheduler)) == msgspec.json.encode(small(scheduler))

    @pytest.mark.parametrize("scheduler", ["carico", "kube-scheduler"])
    def test_another_seed_gives_another_run(self, scheduler):
        one, other = small(scheduler), run(SMALL, scheduler, seed=2)
        assert [pod.finished_s for pod in one.pods] != [pod.finished_s for pod in other.pods]

    def test_another_process_gives_the_same_bytes(self):
        program = (
            "import hashlib, msgspec, sys\n"
            "from testbed.clusters.simulated import SimulatedCluster\n"
            "from testbed.schedulers.spec import parse_spec\n"
            "from testbed.simulation.parameters import SimulationParameters\n"
            "from workloads.scenario import Scenario\n"
            "scenario = msgspec.json.decode(sys.argv[1], type=Scenario)\n"
            "for scheduler in ('carico', 'kube-scheduler'):\n"
            "    parameters = SimulationParameters(warm_up_s=2.0)\n"
            "    run = SimulatedCluster(scenario, parse_spec(scheduler), 1, parameters).run()\n"
            "    print(hashlib.sha256(msgspec.json.encode(run)).hexdigest())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, msgspec.json.encode(SMALL).decode()],
            env=os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        here = [
            hashlib.sha256(msgspec.json.encode(small(scheduler))).hexdigest()
            for scheduler in ("carico", "kube-scheduler")
        ]
        assert done.stdout.split() == here

    def test_a_result_says_all_that_it_takes_to_repeat_it(self):
        first = small("carico")
        said = dict(first.settings)
        again = Scenario(
            name=first.scenario,
            description="from a result",
            jobs=msgspec.convert(said.pop("jobs"), list[JobSpec]),
            limit_s=said.pop("limit_s"),
            node_changes=msgspec.convert(said.pop("node_changes"), list[NodeChange]),
            cluster=msgspec.convert(
                {name: said.pop(name) for name in ("nodes", "cores", "memory", "max_pods", "pools")}, ClusterShape
            ),
        )
        repeated = SimulatedProvider().run(again, parse_spec(first.scheduler), first.seed, said)
        assert msgspec.json.encode(repeated) == msgspec.json.encode(first)

    def test_a_pod_has_the_same_work_under_every_scheduler(self):
        works = []
        for scheduler in ("carico", "kube-scheduler", "kube-scheduler:cpu=1"):
            one = cluster(SMALL, scheduler)
            one.run()
            works.append([pod.work for pod in one._api.pods])
        assert works[0] == works[1] == works[2]
        assert len(set(works[0])) == 24

    def test_a_job_has_the_same_work_whatever_comes_after_it(self):
        alone = cluster(scenario(job("a")))
        both = cluster(scenario(job("a"), job("b")))
        for one in (alone, both):
            one.run()
        first = [[pod.work for pod in one._api.pods if pod.job.name == "a"] for one in (alone, both)]
        assert first[0] == first[1]

    def test_watching_changes_nothing(self):
        watched = cluster(SMALL, "kube-scheduler", observer=DEFAULT_VARIANT).run()
        alone = small("kube-scheduler")
        assert msgspec.json.encode(watched.pods) == msgspec.json.encode(alone.pods)
        assert msgspec.json.encode(watched.data_items) == msgspec.json.encode(alone.data_items)
        for with_agent, without in zip(watched.nodes, alone.nodes, strict=True):
            assert with_agent.running_pods == without.running_pods
            assert with_agent.cpu_utilisation == without.cpu_utilisation
            assert set(without.pod_capacity) == {None}
            assert None not in with_agent.pod_capacity


class TestRuns:
    @pytest.mark.parametrize("scheduler", ["carico", "carico:variant=thesis-literal", "kube-scheduler"])
    def test_every_pod_completes_once(self, scheduler):
        repetition = small(scheduler)
        check(SMALL, repetition)
        assert len(repetition.pods) == 24
        assert {pod.outcome for pod in repetition.pods} == {"succeeded"}
        ends = [pod.finished_s for pod in repetition.pods]
        assert repetition.job_completion_time_s == {"pi": max(ends)}
        assert repetition.nodes[0].time_s[-1] <= max(ends) + 1.0 + 0.1, "and then it is over"
        assert repetition.nodes[0].time_s[-1] >= max(ends) - 1.0

    @pytest.mark.parametrize(("cpu", "slots"), [("500m", 7), ("1", 3), ("3", 1)])
    def test_no_node_holds_more_pods_than_it_has_slots(self, cpu, slots):
        repetition = run(scenario(job(pods=30)), f"kube-scheduler:cpu={cpu}")
        assert running_pods(repetition).max() <= slots
        for node in ("node-0", "node-1"):
            mine = [pod for pod in repetition.pods if pod.node == node]
            assert len(mine) > slots, "slots are used again"
            changes = [(pod.scheduled_s, 1) for pod in mine] + [(pod.finished_s, -1) for pod in mine]
            held = np.cumsum([change for _, change in sorted(changes)])
            assert held.max() == slots

    def test_pods_alone_take_their_work(self):
        one = cluster(scenario(job(pods=8), nodes=8), **QUIET)
        repetition = one.run()
        works = [pod.work for pod in one._api.pods]
        assert pod_completion_times(repetition.pods) == pytest.approx(works, abs=1e-5)
        assert set(Counter(pod.node for pod in repetition.pods).values()) == {1}

    def test_cpu_used_is_work_done(self):
        one = cluster(scenario(job(pods=30)), "kube-scheduler:cpu=500m", **QUIET)
        repetition = one.run()
        # Less the last stop bursts, which may not be over.
        work = sum(pod.work for pod in one._api.pods) + 30 * 0.4
        counters = one._fleet.counters()
        busy = float((counters.cpu_total - counters.cpu_idle).sum()) / 100
        assert work - 2 * 0.2 <= busy <= work + 30 * 0.1
        recorded = 4 * float(np.sum([node.cpu_utilisation for node in repetition.nodes]))
        rest_s = one._fleet.now - repetition.nodes[0].time_s[-1]
        assert busy - 2 * 4 * rest_s - 0.1 <= recorded <= busy + 0.1

    def test_one_node(self):
        of = scenario(job(pods=12), nodes=1)
        for scheduler in ("carico", "kube-scheduler:cpu=500m"):
            repetition = run(of, scheduler)
            check(of, repetition)
            assert {pod.node for pod in repetition.pods} == {"node-0"}
            assert repetition.job_completion_time_s["pi"] is not None

    def test_more_nodes_than_kube_scheduler_looks_at(self):
        of = scenario(job(pods=150), nodes=120)
        for scheduler in ("carico", "kube-scheduler"):
            repetition = run(of, scheduler, pod_creations_burst=150)
            check(of, repetition)
            assert repetition.nodes[7].name == "node-007"
            assert len({pod.node for pod in repetition.pods}) > 75
            assert repetition.job_completion_time_s["pi"] is not None

    def test_one_core(self):
        of = scenario(job(pods=4), cores=1)
        repetition = run(of, "carico")
        check(of, repetition)
        assert repetition.job_completion_time_s["pi"] is not None

    def test_the_catalogue_fits_its_clusters(self):
        for name in ("estimator-convergence", "complementary-capacity"):
            of = msgspec.structs.replace(load_scenario(name), limit_s=40.0)
            check(of, run(of))


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

    def test_a_job_that_is_published_when_all_others_are_over_is_waited_for(self):
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


class TestLimit:
    def test_what_is_left_is_unfinished(self):
        of = scenario(job(pods=100, parameters={"digits": 500}), limit_s=8.0)
        repetition = run(of)
        check(of, repetition)
        outcomes = Counter(pod.outcome for pod in repetition.pods)
        assert outcomes["succeeded"] > 0
        assert outcomes["unfinished"] > 0
        assert repetition.job_completion_time_s == {"pi": None}
        assert repetition.nodes[0].time_s[-1] in (7.0, 8.0)

    def test_shorter_than_a_second(self):
        of = scenario(job(pods=3), limit_s=0.5)
        repetition = run(of)
        check(of, repetition)
        assert [node.time_s for node in repetition.nodes] == [[], []]

    def test_a_pod_that_the_platform_leaves_too_little_memory_is_refused(self):
        hungry = job("hungry", pods=1, workload="mlp", parameters={"memory": "900Mi"})
        of = scenario(hungry, nodes=1, memory="1Gi")
        message = (
            r"a pod of job hungry uses 900 MiB at its peak, a node has at most 881 MiB .*\(background_memory=0.14\)"
        )
        with pytest.raises(UsageError, match=message):
            run(of)
        assert run(of, background_memory=0.1).job_completion_time_s["hungry"] is not None

    def test_a_request_that_no_node_has_room_for_beside_the_platform_is_refused(self):
        with pytest.raises(InvalidSpec, match="a node has at most 3800m"):
            run(scenario(job(pods=2), limit_s=20.0), "kube-scheduler:cpu=3900m")


class TestSettings:
    @pytest.mark.parametrize("scheduler", ["carico", "kube-scheduler"])
    @pytest.mark.parametrize(
        "parameters",
        [
            {"tick_s": 0.05},
            {"tick_s": 0.02},
            {"warm_up_s": 0.5},
            {"warm_up_s": 10.1},
            {"start_delay_min_s": 0, "start_delay_max_s": 0, "start_cpu_s": 0, "stop_cpu_s": 0},
            {"background_cores": 0, "background_cores_per_pod": 0, "background_memory": 0},
            {"background_cores": 3.5, "background_cores_per_pod": 0.5},
            {"system_weight": 0},
            {"system_weight": 1e9, "start_cpu_s": 5},
            {"contention_loss": 0.5, "node_speed_variation": 0.5},
            {"starts_per_s": 0.5},
            {"platform_millicpu": 0, "platform_memory_mib": 0},
            {"pod_creations_per_s": 1, "pod_creations_burst": 1, "bindings_per_s": 1, "bindings_burst": 1},
            {"scheduling_attempts_per_s": 1},
            {"backoff_initial_s": 0.001, "backoff_max_s": 0.001},
            {"running_visible_max_s": 30, "finished_visible_min_s": 0, "finished_visible_max_s": 0},
            {"pressure": "at-least-one-waiting"},
        ],
        ids=str,
    )
    def test_extremes(self, scheduler, parameters):
        of = scenario(job(pods=8, parameters={"digits": 1000}), limit_s=600.0)
        repetition = run(of, scheduler, **parameters)
        check(of, repetition)
        assert repetition.job_completion_time_s["pi"] is not None

    def test_without_warm_up_the_series_begin_at_one_second_too(self):
        repetition = run(scenario(job(pods=8), limit_s=10.0), warm_up_s=0)
        assert repetition.nodes[0].time_s[:3] == [1.0, 2.0, 3.0]

    def test_agents_that_hear_nothing_offer_nothing(self):
        of = scenario(job(pods=2), limit_s=10.0)
        repetition = run(of, "carico", sample_loss=1.0)
        check(of, repetition)
        assert {pod.node for pod in repetition.pods} == {None}
        assert {capacity for node in repetition.nodes for capacity in node.pod_capacity} == {0.0}

    @pytest.mark.parametrize(
        ("seed", "settings", "error"),
        [(-1, {}, UsageError), (1, {"colour": "red"}, InvalidSetting), (1, {"tick_s": "fast"}, InvalidSetting)],
    )
    def test_what_makes_no_sense_is_refused(self, seed, settings, error):
        with pytest.raises(error):
            SimulatedProvider().run(SMALL, parse_spec("carico"), seed, settings)

    def test_settings_may_be_text(self):
        as_text = SimulatedProvider().run(SMALL, parse_spec("kube-scheduler"), 1, {"warm_up_s": "2"})
        assert msgspec.json.encode(as_text) == msgspec.json.encode(small("kube-scheduler"))


class TestWatching:
    def test_telemetry_is_10_hz_from_the_beginning(self):
        telemetry = []
        repetition = cluster(SMALL, observer=DEFAULT_VARIANT, telemetry=telemetry).run()
        times = [float(sample.at_s) for sample in telemetry]
        assert times == pytest.approx([(tick + 1) / 10 for tick in range(len(times))])
        assert len(times) // 10 == len(repetition.nodes[0].time_s)
        # The mean of ten samples is the second's.
        means = np.array([sample.cpu_utilisation for sample in telemetry[:100]]).reshape(10, 10, 2).mean(axis=1)
        assert means == pytest.approx(np.array([node.cpu_utilisation[:10] for node in repetition.nodes]).T, abs=1e-6)

    def test_progress_is_told_every_second(self):
        told = []
        repetition = cluster(SMALL).run(told.append)
        assert [round(progress.at_s, 6) for progress in told] == repetition.nodes[0].time_s
        assert {(progress.phase, progress.pods, progress.limit_s) for progress in told} == {("running", 24, 3600.0)}
        for before, after in pairwise(told):
            assert before.bound <= after.bound <= 24
            assert before.finished <= after.finished <= after.bound

    def test_progress_counts_no_pod_twice(self):
        hungry = job("hungry", pods=3, workload="mlp", parameters={"cpu_seconds": 8, "memory": "900Mi", "threads": 1})
        told = []
        repetition = cluster(scenario(hungry, nodes=1, memory="2Gi"), background_memory=0).run(told.append)
        assert len(repetition.pods) > 3
        assert max(progress.bound for progress in told) <= 3
        assert max(progress.finished for progress in told) <= 3

    def test_without_agents_there_is_no_telemetry(self):
        with pytest.raises(UsageError, match="kube-scheduler has none: an observer is needed"):
            cluster(SMALL, telemetry=[])


jobs = st.builds(
    JobSpec,
    name=st.sampled_from("abc"),
    workload=st.just("pi"),
    pods=st.integers(1, 12),
    parameters=st.fixed_dictionaries({"digits": st.sampled_from([10.0, 400.0, 1500.0])}),
    requests=st.builds(Requests, cpu=st.sampled_from([None, "10m", "1"]), memory=st.sampled_from([None, "300Mi"])),
    start_s=st.sampled_from([0.0, 0.05, 12.0]),
    placement=st.sampled_from(["any", "first", "rest"]),
    backoff_limit=st.integers(0, 3),
) | st.builds(
    JobSpec,
    name=st.sampled_from("def"),
    workload=st.just("stress"),
    pods=st.integers(1, 6),
    parameters=st.fixed_dictionaries(
        {
            "cpu": st.sampled_from([1, 2]),
            "cpu_load": st.sampled_from([10, 100]),
            "duration_s": st.sampled_from([0.01, 3.33, 20.0]),
            "vm": st.just(1),
            "vm_bytes": st.sampled_from(["1Mi", "400Mi", "860Mi"]),
        }
    ),
    disturbance=st.booleans(),
    backoff_limit=st.integers(0, 3),
)


LIVES = (
    ["failed", "recovered", "failed"],
    ["failed", "removed", "added"],
    ["added", "failed", "recovered"],
    ["removed", "added", "removed"],
)


def _changes(node, kinds, times):
    return [NodeChange(at_s, node, kind) for kind, at_s in zip(kinds, sorted(times), strict=False)]


def _before(limit_s, changes):
    return [change for change in changes if change.at_s < limit_s]


times_s = st.lists(st.sampled_from([0.0, 1.03, 2.5, 7.0, 9.99, 20.0, 31.0]), max_size=3, unique=True)
changes = st.builds(
    lambda first, first_at, second, second_at: (
        _changes("node-0", first, first_at) + _changes("node-1", second, second_at)
    ),
    st.sampled_from(LIVES),
    times_s,
    st.sampled_from(LIVES),
    times_s,
)


@settings(max_examples=25)
@given(
    st.lists(jobs, min_size=1, max_size=3, unique_by=lambda job: job.name).filter(
        lambda jobs: not all(job.disturbance for job in jobs)
    ),
    st.sampled_from(["carico", "kube-scheduler", "kube-scheduler:cpu=300m,memory=100Mi"]),
    st.integers(2, 4),
    st.sampled_from([3.0, 60.0]),
    st.integers(0, 2**32),
    changes,
)
def test_any_run_is_one_that_a_real_cluster_could_have_had(jobs, scheduler, nodes, limit_s, seed, changes):
    published = [msgspec.structs.replace(job, start_s=min(job.start_s, limit_s / 2)) for job in jobs]
    of = scenario(
        *published, nodes=nodes, cores=2, memory="1Gi", limit_s=limit_s, node_changes=_before(limit_s, changes)
    )
    check(of, run(of, scheduler, seed, node_grace_s=4.0, eviction_s=6.0))


class TestWakeUp:
    """Room that a node learns of is no event of the cluster."""

    of = scenario(job(pods=9, workload="task", parameters={"cores": 1, "cpu_seconds": 60}))

    def test_without_it_refused_pods_wait_for_the_first_that_ends(self):
        one = cluster(self.of, "carico")
        first = min(pod.finished_s for pod in one.run().pods)
        assert [pod.scheduled_s > first for pod in one._api.pods] == [False] * 4 + [True] * 5
        assert one.wake_ups == 0

    def test_with_it_they_follow_as_soon_as_there_is_room(self):
        one = cluster(self.of, "carico:wake_up=true")
        repetition = one.run()
        assert sum(pod.scheduled_s < 10 for pod in repetition.pods) > 4
        assert one.wake_ups > 0
        assert one.scheduling_attempts >= len(repetition.pods) + 5
        check(self.of, repetition)

    def test_the_call_and_the_watch_take_their_time(self):
        one = cluster(self.of, "carico:wake_up=true", warm_up_s=2.0, bind_latency_s=0.5, watch_latency_s=1.0)
        heard = []
        one._api.watch(node_changed=lambda node: heard.append((one._env.now, node)))
        one._annotate(1)
        one._env.run(0)
        assert heard == [(-0.5, 1)]

    def test_a_back_off_shorter_than_the_first_is_refused(self):
        with pytest.raises(UsageError, match=r"carico:backoff_max_s=0\.5: backoff_initial_s must not exceed"):
            SimulatedProvider().check(SMALL, parse_spec("carico:backoff_max_s=0.5"), {})

    def test_the_back_off_is_that_of_the_variants_own_scheduler(self):
        crowd = scenario(job(pods=50, parameters={"digits": 1500}), nodes=1)
        attempts = {}
        for scheduler in ("carico", "carico:backoff_max_s=1"):
            one = cluster(crowd, scheduler)
            assert one.run().settings["backoff_max_s"] == 10, "what the cluster's has"
            attempts[scheduler] = one.scheduling_attempts
        assert attempts["carico:backoff_max_s=1"] > 1.5 * attempts["carico"]
