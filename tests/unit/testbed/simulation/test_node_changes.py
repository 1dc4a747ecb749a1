"""Nodes that join, leave, fail and recover in the middle of a run: what users see of their pods and jobs."""

from functools import cache

import pytest

from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import ClusterShape, JobSpec, NodeChange, Scenario, checked

SCHEDULERS = ["carico", "kube-scheduler:cpu=500m"]
QUICK = {"node_grace_s": 10.0, "eviction_s": 20.0, "warm_up_s": 5.0}


def run(*changes, scheduler="kube-scheduler:cpu=500m", nodes=2, pods=40, limit_s=400.0, parameters=QUICK, **job):
    jobs = [JobSpec(**{"name": "pi", "workload": "pi", "pods": pods, "backoff_limit": 1000} | job)]
    scenario = Scenario(
        name="changes",
        description="x",
        jobs=jobs,
        cluster=ClusterShape(nodes=nodes),
        node_changes=[NodeChange(at_s, node, change) for at_s, node, change in changes],
        limit_s=limit_s,
    )
    settings = SimulationParameters(**parameters)
    return SimulatedCluster(checked(scenario, "test"), parse_spec(scheduler), 1, settings).run()


@cache
def away_for_a_while(scheduler):
    return run((15.5, "node-1", "failed"), (25.5, "node-1", "recovered"), scheduler=scheduler)


@cache
def away_under_carico():
    return run((20, "node-1", "failed"), (60, "node-1", "recovered"), scheduler="carico", pods=90)


def pods_of(repetition, node, outcome=None):
    return [pod for pod in repetition.pods if pod.node == node and outcome in (None, pod.outcome)]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
class TestEveryScheduler:
    def test_a_node_that_joins_takes_pods_from_then_on(self, scheduler):
        repetition = run((20, "node-1", "added"), scheduler=scheduler)
        starts = [pod.scheduled_s for pod in pods_of(repetition, "node-1")]
        assert starts, "it helps"
        assert 20 <= min(starts) < 35, "pods that found no room before are tried again"
        alone = run(scheduler=scheduler, nodes=1)
        assert repetition.job_completion_time_s["pi"] < alone.job_completion_time_s["pi"]

    def test_pods_of_a_node_that_is_removed_run_again_elsewhere(self, scheduler):
        repetition = run((20, "node-1", "removed"), scheduler=scheduler)
        evicted = pods_of(repetition, "node-1", "evicted")
        assert evicted
        # Among them is whoever ended just before, and had no time to say so.
        assert all(19 < pod.finished_s < 20.2 for pod in evicted if pod.started_s is not None)
        assert all(pod.scheduled_s < 20.1 for pod in pods_of(repetition, "node-1"))
        assert repetition.job_completion_time_s["pi"] is not None
        assert {pod.outcome for pod in repetition.pods} == {"succeeded", "evicted"}

    def test_pods_of_a_node_that_fails_come_back_only_after_their_toleration(self, scheduler):
        # Few pods: the Job controller's wait doubles with every failure.
        repetition = run((2, "node-1", "failed"), scheduler=scheduler, pods=8)
        lost = pods_of(repetition, "node-1", "evicted")
        assert lost
        names = {pod.name for pod in lost}
        replaced = [pod for pod in repetition.pods if pod.name.removesuffix("-retry-1") in names - {pod.name}]
        assert len(replaced) == len(lost)
        assert min(pod.created_s for pod in replaced) >= 2 + 10 + 20
        assert max(pod.scheduled_s for pod in pods_of(repetition, "node-1")) < 12.2, "NotReady takes no pods"
        assert repetition.job_completion_time_s["pi"] is not None

    def test_a_node_that_recovers_tells_of_its_pods_and_works_again(self, scheduler):
        repetition = away_for_a_while(scheduler)
        assert pods_of(repetition, "node-1", "failed"), "they say what became of them: nobody evicted them"
        later = [pod for pod in pods_of(repetition, "node-1", "succeeded") if pod.started_s > 25.5]
        assert later
        replaced = [pod.created_s for pod in repetition.pods if "-retry-" in pod.name]
        assert 25.5 < min(replaced) < 45.5, "sooner than if it had stayed away"
        assert repetition.job_completion_time_s["pi"] is not None

    def test_no_telemetry_is_recorded_of_a_node_that_is_down(self, scheduler):
        here, away = away_for_a_while(scheduler).nodes
        assert None not in here.cpu_utilisation
        unknown = [at for at, value in zip(away.time_s, away.cpu_utilisation, strict=True) if value is None]
        assert unknown == [float(second) for second in range(16, 26)]
        assert {away.running_pods[int(at) - 1] for at in unknown} == {0}


class TestJobs:
    def test_a_job_with_a_failure_policy_waits_until_lost_pods_are_known_to_have_ended(self):
        """Kubernetes allows no other podReplacementPolicy than Failed together with a policy."""
        changes = [(20, "node-1", "failed"), (150, "node-1", "recovered")]
        counting, ignoring = (run(*changes, on_disruption=policy, limit_s=200.0) for policy in ("count", "ignore"))
        first = [min(pod.created_s for pod in one.pods if "-retry-" in pod.name) for one in (counting, ignoring)]
        assert 50 <= first[0] < 70
        assert first[1] >= 150
        gone = run((20, "node-1", "failed"), (100, "node-1", "removed"), on_disruption="ignore", limit_s=150.0)
        assert 100 <= min(pod.created_s for pod in gone.pods if "-retry-" in pod.name) < 110

    def test_a_success_that_the_api_never_heard_of_does_not_count(self):
        """A container that ends just before its node is removed: the API never saw it."""
        alone = run(nodes=1, pods=1)
        (pod,) = alone.pods
        later = run((pod.finished_s + 0.05, "node-0", "removed"), (60, "node-0", "added"), nodes=1, pods=1)
        assert [one.outcome for one in later.pods] == ["evicted", "succeeded"]
        assert later.job_completion_time_s["pi"] > 60

    def test_containers_of_a_node_that_came_back_start_at_the_kubelets_rate(self):
        changes = [(1, "node-0", "failed"), (30, "node-0", "recovered")]
        repetition = run(*changes, nodes=1, pods=7, parameters=QUICK | {"node_grace_s": 3600.0})
        starts = sorted(pod.started_s for pod in repetition.pods if pod.started_s is not None and pod.started_s > 30)
        assert len(starts) >= 7
        assert starts[6] - starts[0] > 1.0, "4 a second"

    def test_lost_pods_count_as_failures(self):
        repetition = run((20, "node-1", "removed"), backoff_limit=2)
        assert repetition.job_completion_time_s["pi"] is None

    def test_unless_the_job_ignores_disruptions(self):
        repetition = run((20, "node-1", "removed"), backoff_limit=2, on_disruption="ignore")
        assert repetition.job_completion_time_s["pi"] is not None


class TestCarico:
    def test_what_a_node_reported_before_it_failed_is_forgotten(self):
        repetition = away_under_carico()
        away = repetition.nodes[1]
        assert {away.pod_capacity[second] for second in range(20, 59)} == {None}
        back = [pod for pod in pods_of(repetition, "node-1") if pod.scheduled_s > 60]
        assert back
        first = next(capacity for capacity in away.pod_capacity[59:] if capacity is not None)
        assert first == pytest.approx(2.0, abs=0.05), "what a node advertises that knows nothing"

    def test_pods_on_their_way_to_a_lost_node_do_not_block_it_for_ever(self):
        """Reservations of pods that never ran end with their eviction."""
        again = [pod for pod in pods_of(away_under_carico(), "node-1", "succeeded") if pod.started_s > 60]
        assert len(again) > 10

    def test_all_nodes_may_be_away_for_a_while(self):
        changes = [(0, f"node-{n}", "added") for n in (0, 1)]
        repetition = run(*changes, scheduler="carico", pods=4)
        assert repetition.job_completion_time_s["pi"] is not None
