"""The simulated cluster as a whole: the same bytes for the same seed, and nothing that a real cluster could not do."""

import hashlib
import os
import subprocess
import sys
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico.model.variants import DEFAULT_VARIANT
from testbed.errors import InvalidSpec, UsageError
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.utilisation import running_pods
from testbed.schedulers.spec import parse_spec
from testbed.simulation.provider import SimulatedProvider
from workloads.scenario import ClusterShape, JobSpec, NodeChange, Requests, Scenario, load_scenario

from .simulated_runs import QUIET, SMALL, check, cluster, job, run, scenario, small


class TestDeterminism:
    @pytest.mark.parametrize("scheduler", ["carico", "kube-scheduler"])
    def test_another_seed_gives_another_run(self, scheduler):
        one, other = small(scheduler), run(SMALL, scheduler, seed=2)
        assert [pod.finished_s for pod in one.pods] != [pod.finished_s for pod in other.pods]

    def test_the_same_seed_gives_the_same_bytes_in_another_process(self):
        program = (
            "import hashlib, msgspec, sys\n"
            "from testbed.simulation.cluster import SimulatedCluster\n"
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
        repeated = SimulatedProvider().check(again, parse_spec(first.scheduler), said).run(first.seed)
        assert msgspec.json.encode(repeated) == msgspec.json.encode(first)

    def test_a_pod_has_the_same_work_under_every_scheduler(self):
        works = []
        for scheduler in ("carico", "kube-scheduler", "kube-scheduler:cpu=1"):
            one = cluster(msgspec.structs.replace(SMALL, limit_s=10.0), scheduler)
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

    def test_watching_changes_nothing_but_the_cpu_that_it_takes(self):
        watched = cluster(SMALL, "kube-scheduler", observer=DEFAULT_VARIANT, agent_cores=0.0).run()
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


class TestLimit:
    def test_pods_that_the_limit_cuts_off_are_unfinished(self):
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
