"""From pods of a trace to a scenario: which pods are taken, which jobs they become, and the scenario's YAML."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.arrivals import Poisson
from workloads.errors import InvalidScenario, InvalidTrace
from workloads.scenario import ClusterShape, JobSpec, NodePool, Requests, Scenario, catalogue, read_scenario
from workloads.traces.alibaba import TraceNode, TracePod
from workloads.traces.replay import pools_of, scenario_of, scenario_yaml, select

CLUSTER = ClusterShape(nodes=2, cores=16, memory="32Gi")


def pod(name="p", created_s=0.0, lifetime_s=100.0, millicpu=2000, memory_mib=1024, gpus=0, phase="Succeeded"):
    return TracePod(name, created_s, created_s, lifetime_s, millicpu, memory_mib, gpus, "LS", phase)


def pending():
    return TracePod("waited", 0.0, None, None, 1000, 100, 0, "BE", "Pending")


pods = st.lists(
    st.builds(
        pod,
        created_s=st.integers(0, 10_000).map(float),
        lifetime_s=st.integers(1, 10_000).map(float),
        millicpu=st.sampled_from([500, 2000, 3152]),
        memory_mib=st.sampled_from([0, 100, 5600]),
    ),
    min_size=1,
    max_size=20,
)


class TestSelect:
    def test_the_first_of_a_window_in_order(self):
        all_pods = [pod(str(at), created_s=at) for at in (50, 10, 40, 20, 30)]
        assert [one.name for one in select(all_pods, CLUSTER).pods] == ["10", "20", "30", "40", "50"]
        assert [one.name for one in select(all_pods, CLUSTER, from_s=20, to_s=50).pods] == ["20", "30", "40"]
        assert [one.name for one in select(all_pods, CLUSTER, from_s=20, count=2).pods] == ["20", "30"]

    def test_pods_left_out_are_counted_by_reason(self):
        unfit = [
            pending(),
            pod(lifetime_s=None, phase="Running"),
            pod(lifetime_s=0.0),
            pod(millicpu=0),
            pod(millicpu=14_000),
            pod(memory_mib=28 * 1024),
        ]
        selection = select([*unfit, pod()], CLUSTER)
        assert selection.pods == [pod()]
        assert selection.left_out == {
            "never ran": 1,
            "still ran when the trace ended": 1,
            "did no work (no CPU requested, or less than a second)": 2,
            "request more than 85% of every node": 2,
        }

    def test_one_node_that_is_large_enough_will_do(self):
        pools = [NodePool("small", 5, 4, "8Gi"), NodePool("big", 1, 64, "256Gi")]
        assert select([pod(millicpu=32_000)], ClusterShape(pools=pools)).left_out == {}

    @pytest.mark.parametrize(
        ("all_pods", "message"),
        [
            ([pending()], "no pod created from 0 s on and before inf s can be replayed: 1 never ran"),
            ([], "none was created then"),
        ],
    )
    def test_a_selection_without_pods_is_refused(self, all_pods, message):
        with pytest.raises(InvalidTrace, match=message):
            select(all_pods, CLUSTER)


class TestScenario:
    def test_a_pod_lives_as_long_as_in_the_trace_and_uses_a_share_of_its_requests(self):
        (job,) = scenario_of([pod()], CLUSTER, usage=0.5, memory_usage=0.25).jobs
        demand = job.demand
        assert [phase.threads for phase in demand.phases] == [1.0]
        assert demand.cpu_seconds / demand.phases[0].threads == 100.0
        assert demand.memory_bytes == 256 * 2**20
        assert job.requests == Requests(cpu="2000m", memory="1024Mi")

    def test_pods_of_one_request_are_a_job_with_work_of_their_own(self):
        all_pods = [
            pod(created_s=500, lifetime_s=300),
            pod(created_s=520, millicpu=500),
            pod(created_s=560, lifetime_s=100),
            pod(created_s=600, memory_mib=2048),
        ]
        jobs = {job.name: job for job in scenario_of(all_pods, CLUSTER).jobs}
        assert list(jobs) == ["pods-2000m-1024mi", "pods-500m-1024mi", "pods-2000m-2048mi"]
        first = jobs["pods-2000m-1024mi"]
        assert (first.start_s, first.arrivals.at_s) == (0, [0, 60])
        assert [first.demand.cpu_seconds * work for work in first.work] == [600, 200]
        assert (jobs["pods-500m-1024mi"].start_s, jobs["pods-2000m-2048mi"].start_s) == (20, 100)

    def test_arrivals_and_lifetimes_are_scaled(self):
        all_pods = [pod(), pod(created_s=1000)]
        (job,) = scenario_of(all_pods, CLUSTER, time_scale=10).jobs
        assert (job.arrivals.at_s, job.demand.cpu_seconds) == ([0, 100], 20)
        (job,) = scenario_of(all_pods, CLUSTER, time_scale=10, lifetime_scale=1).jobs
        assert (job.arrivals.at_s, job.demand.cpu_seconds) == ([0, 100], 200)

    def test_the_limit_leaves_time_for_all_the_work(self):
        scenario = scenario_of([pod(millicpu=10_000, lifetime_s=1000)] * 50, CLUSTER)
        assert scenario.limit_s >= 2 * 50 * 10 * 1000 / 32

    @pytest.mark.parametrize(
        ("all_pods", "arguments", "message"),
        [
            ([], {}, "at least one pod"),
            ([pending()], {}, "pod waited has no lifetime or no CPU"),
            ([pod()], {"usage": 0}, "usage must be more than 0 and at most 1000000, got 0"),
            ([pod()], {"memory_usage": math.nan}, "memory_usage must be .* got nan"),
            ([pod()], {"time_scale": math.inf}, "time_scale must be .* got inf"),
            ([pod()], {"lifetime_scale": -1}, "lifetime_scale must be .* got -1"),
            (
                [pod(), pod(created_s=2e6)],
                {},
                "the last pod would end after 2000100 s, a scenario lasts at most 1000000",
            ),
            ([pod()], {"time_scale": 1e-300}, "would end after"),
        ],
    )
    def test_what_gives_no_scenario_is_refused(self, all_pods, arguments, message):
        with pytest.raises(InvalidTrace, match=message):
            scenario_of(all_pods, CLUSTER, **arguments)

    def test_the_name_is_checked(self):
        with pytest.raises(
            InvalidScenario,
            match="name: a name of 1 to 50 small letters, digits and inner hyphens is needed, got 'No Name'",
        ):
            scenario_of([pod()], CLUSTER, name="No Name")

    @given(pods, st.sampled_from([0.5, 1.0, 7.0, 100.0]), st.sampled_from([0.01, 0.5, 2.0]))
    def test_all_the_work_is_in_the_scenario_and_the_order_of_rows_is_not(self, all_pods, time_scale, usage):
        arguments = {"time_scale": time_scale, "usage": usage}
        scenario = scenario_of(all_pods, CLUSTER, **arguments)
        assert sum(job.pods for job in scenario.jobs) == len(all_pods)
        work = sum(job.demand.cpu_seconds * sum(job.work or [job.pods]) for job in scenario.jobs)
        assert work == pytest.approx(
            sum(one.lifetime_s / time_scale * usage * one.millicpu / 1000 for one in all_pods), rel=1e-4
        )
        assert read_scenario(scenario_yaml(scenario), "again") == scenario
        rows = sorted(all_pods, key=lambda one: one.created_s)
        assert scenario_yaml(scenario_of(rows, CLUSTER, **arguments)) == scenario_yaml(scenario)


class TestPools:
    def test_nodes_of_one_size_are_a_pool(self):
        nodes = [
            TraceNode("a", 96_000, 393_216, 8),
            TraceNode("b", 32_500, 1024, 0),
            TraceNode("c", 96_000, 393_216, 0),
        ]
        assert pools_of(nodes) == [
            NodePool("96c-393216mi", nodes=2, cores=96, memory="393216Mi"),
            NodePool("32c-1024mi", nodes=1, cores=32, memory="1024Mi"),
        ]
        assert len(ClusterShape(pools=pools_of(nodes)).node_names) == 3


class TestYaml:
    @pytest.mark.parametrize("scenario", catalogue(), ids=lambda scenario: scenario.name)
    def test_it_is_the_scenario(self, scenario):
        assert read_scenario(scenario_yaml(scenario), "again") == scenario

    def test_default_values_are_not_written(self):
        job = JobSpec(name="pi", workload="pi", pods=2, arrivals=Poisson(rate_per_s=2.0))
        text = scenario_yaml(Scenario(name="small", description="two", jobs=[job]))
        assert text.splitlines() == [
            "name: small",
            "description: two",
            "jobs:",
            "- name: pi",
            "  workload: pi",
            "  pods: 2",
            "  arrivals: {pattern: poisson, rate_per_s: 2.0}",
        ]

    def test_what_jobs_share_is_written_for_each(self):
        shared = {"digits": 100.0}
        jobs = [JobSpec(name=name, workload="pi", pods=1, parameters=shared) for name in ("a", "b")]
        scenario = Scenario(name="small", description="two", jobs=jobs)
        assert read_scenario(scenario_yaml(scenario), "again") == scenario
