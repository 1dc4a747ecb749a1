"""Which simulated pods are of one workload, and how long a workload is known."""

import pytest

from testbed.simulation.schedulers.demand import kind_of
from workloads.scenario import JobSpec, Requests

from ..simulated_runs import cluster, job, scenario

DEMAND = "carico:variant=demand"


def spec(name="pi", workload="pi", **fields):
    return JobSpec(name=name, workload=workload, pods=1, **fields)


@pytest.mark.parametrize(
    "alike",
    [
        {"name": "another"},
        {"requests": Requests(cpu="2", memory="1Gi")},
        {"start_s": 60.0},
        {"disturbance": True},
        {"work": [2.0]},
    ],
    ids=str,
)
def test_jobs_of_one_template_are_one_workload(alike):
    assert kind_of(spec(**alike)) == kind_of(spec())


def test_another_program_or_parameter_is_another_workload():
    of = [
        spec(),
        spec(parameters={"digits": 500}),
        spec(workload="mlp"),
        spec(workload="mlp", parameters={"threads": 2}),
    ]
    assert len({kind_of(one).workload for one in of}) == len(of)


def test_where_pods_may_go_and_what_they_ask_for_is_told_apart_but_costs_the_same():
    first, rest, critical = (
        kind_of(spec(placement="first")),
        kind_of(spec(placement="rest")),
        spec(latency_critical=True),
    )
    assert len({kind_of(spec()).placement, first.placement, rest.placement}) == 3
    assert first.workload == rest.workload == kind_of(critical).workload == kind_of(spec()).workload
    assert kind_of(critical).critical


@pytest.mark.parametrize(("cores", "known"), [(0.25, True), (0.26, False)])
def test_a_job_under_another_name_begins_with_what_the_first_has_taught(cores, known):
    first, second = ({"workload": "task", "parameters": {"cores": each, "cpu_seconds": 5}} for each in (0.25, cores))
    of = scenario(job("one", pods=30, **first), job("two", pods=30, start_s=40.0, **second), nodes=2)
    pods = cluster(of, DEMAND).run().pods
    begun = {
        name: sum(pod.scheduled_s < at + 1 for pod in pods if pod.job == name) for name, at in (("one", 0), ("two", 40))
    }
    assert (begun["two"] > 2 * begun["one"]) == known
