"""Small runs of the simulated cluster, and what is true of every run."""

import math
from collections import Counter
from functools import cache

import msgspec
import pytest

from testbed.results.schema import Repetition
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import ClusterShape, JobSpec, Requests, Scenario, checked

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
        series = {name: node.values(name) for name in node.__struct_fields__ if name not in ("name", "costs")}
        series |= {f"cores of {one.workload}": one.cores for one in node.costs}
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
