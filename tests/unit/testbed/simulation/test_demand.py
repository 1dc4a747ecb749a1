"""The variant `demand` on the simulated cluster."""

import pytest

from carico.demand.scheduler import DemandScheduler
from testbed.errors import UsageError
from testbed.schedulers.spec import parse_spec
from testbed.simulation.provider import SimulatedProvider
from workloads.scenario import NodeChange

from .simulated_runs import check, cluster, job, run, scenario

DEMAND = "carico:variant=demand"
SMALL = scenario(job(pods=24), job("mlp", pods=4, workload="mlp", start_s=5))


def test_every_pod_completes_and_the_same_seed_gives_the_same_run():
    first, again = (run(SMALL, DEMAND, seed=3) for _ in range(2))
    check(SMALL, first)
    assert first == again
    assert {pod.outcome for pod in first.pods} == {"succeeded"}


@pytest.mark.parametrize(
    "parameters",
    [
        {"report_delay_s": 2.0},
        {"report_loss": 0.3},
        {"sample_loss": 0.3, "sample_late": 0.1},
        {"telemetry_delay_s": 1.0},
        {"pod_events": "kubernetes"},
        {"pod_events": "kubernetes-running"},
        {"pop_from_backoff": True},
        {"wake_up": False},
        {"tick_s": 0.05},
    ],
    ids=str,
)
def test_it_copes_with_whatever_the_cluster_is_like(parameters):
    repetition = run(SMALL, DEMAND, **parameters)
    check(SMALL, repetition)
    assert {pod.outcome for pod in repetition.pods} == {"succeeded"}


def test_a_node_that_comes_back_has_an_agent_that_knows_nothing():
    of = scenario(
        job(pods=30, backoff_limit=100),
        nodes=2,
        node_changes=[
            NodeChange(at_s=6, node="node-0", change="failed"),
            NodeChange(at_s=60, node="node-0", change="recovered"),
        ],
    )
    repetition = run(of, DEMAND)
    check(of, repetition)
    assert all(time is not None for time in repetition.job_completion_time_s.values())


def test_what_nodes_learn_of_workloads_is_recorded_second_by_second():
    repetition = run(SMALL, DEMAND, seed=3)
    for node in repetition.nodes:
        assert [one.workload for one in node.costs if one.workload not in ("pi", "mlp")] == []
        for one in node.costs:
            assert len(one.cores) == len(one.gib) == len(node.time_s)
    known = [one.cores for node in repetition.nodes for one in node.costs if one.workload == "pi"]
    assert known
    assert all(0.3 < cores[-1] < 2.0 for cores in known), "a pod of pi is one thread"
    assert any(cores[0] is None or cores[0] != cores[-1] for cores in known), "it is learned"


def test_what_a_service_demands_that_ran_before_the_agent_is_measured():
    service = job("service", pods=2, workload="web", parameters={"duration_s": 100}, disturbance=True)
    of = scenario(service, job(pods=1, start_s=80), nodes=1)
    known = {}
    for pods_s in (5, 0):
        simulated = cluster(of, f"{DEMAND},pods_s={pods_s}")
        simulated.restart_agents(["node-0"], 10.0)
        (node,) = simulated.run().nodes
        (cost,) = [one for one in node.costs if one.workload == "service"]
        known[pods_s] = cost.gib[60]
    assert abs(known[5] - service.demand.memory_bytes / 2**30) < 0.02
    assert known[0] > 0.3, "about what is assumed"


def test_only_the_variant_demand_records_costs():
    assert all(not node.costs for node in run(SMALL, "carico").nodes)


def test_a_node_that_is_down_knows_nothing():
    of = scenario(job(pods=30, backoff_limit=100), nodes=2, node_changes=[NodeChange(6, "node-0", "failed")])
    (down, _) = run(of, DEMAND).nodes
    (cost,) = down.costs
    assert cost.cores[3] is not None
    assert set(cost.cores[8:]) == {None}


@pytest.mark.parametrize("pod_events", ["containerd", "kubernetes"])
def test_a_restarted_agent_counts_the_pods_of_its_node_and_knows_nothing_of_them(pod_events, monkeypatch):
    told = []
    report = DemandScheduler.report
    monkeypatch.setattr(
        DemandScheduler, "report", lambda self, sent, now: told.append((now, sent)) or report(self, sent, now)
    )
    of = scenario(job(workload="task", pods=4, parameters={"cores": 0.5, "cpu_seconds": 20}), nodes=1)
    one = cluster(of, DEMAND, pod_events=pod_events)
    one.restart_agents(["node-0"], at_s=20)
    check(of, one.run())
    before, after = ([sent for now, sent in told if now <= until][-1] for until in (19.99, 20))
    assert len(before.counted) == len(after.counted) == 4
    ((workload, known),) = before.workloads.items()
    assert known.cores.variance < 0.1 < after.workloads[workload].cores.variance


def test_an_agent_needs_pressure():
    with pytest.raises(UsageError, match="a metrics server provides no pressure, which the variant demand learns from"):
        SimulatedProvider().check(SMALL, parse_spec(DEMAND), {"telemetry": "metrics-server"})


def test_a_held_answer_saves_attempts():
    of = scenario(job(pods=60))
    held, refused = (cluster(of, f"{DEMAND},hold_s={hold_s}") for hold_s in (2, 0))
    held.run(), refused.run()
    assert held.scheduling_attempts < refused.scheduling_attempts


class TestDisks:
    """Nodes with disks, and pods that read from them."""

    READERS = job("readers", workload="task", pods=20, parameters={"cores": 1, "cpu_seconds": 1, "reads": "750Mi"})

    @pytest.mark.parametrize("disk", ["hdd", "ssd"])
    def test_pods_that_do_not_read_run_as_if_there_were_none(self, disk):
        with_disks = scenario(*SMALL.jobs, disk=disk)
        assert run(with_disks, DEMAND).pods == run(SMALL, DEMAND).pods

    def test_readers_wait_instead_of_slowing_each_other_down(self):
        of = scenario(self.READERS, disk="hdd")
        ours, without = (run(of, f"{DEMAND}{changed}") for changed in ("", ",reads_from=1e9"))
        check(of, ours)
        assert ours.job_completion_time_s["readers"] < 0.7 * without.job_completion_time_s["readers"]

    def test_a_disk_that_serves_many_at_a_time_is_used(self):
        of = scenario(self.READERS, disk="ssd")
        ours, without = (run(of, f"{DEMAND}{changed}") for changed in ("", ",reads_from=1e9"))
        assert ours.job_completion_time_s["readers"] < 1.3 * without.job_completion_time_s["readers"]

    def test_pods_that_compute_are_not_kept_waiting_by_readers(self):
        """Readers come first and wait; pods that compute pass them by."""
        computes = job("pi", pods=24, start_s=5)
        alone, beside = (run(scenario(*jobs, disk="hdd"), DEMAND) for jobs in ([computes], [self.READERS, computes]))
        assert beside.job_completion_time_s["pi"] < 1.4 * alone.job_completion_time_s["pi"]
        assert beside.job_completion_time_s["pi"] < 0.7 * beside.job_completion_time_s["readers"]
