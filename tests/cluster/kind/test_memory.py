"""A pod that uses more memory than its node has is killed, is recorded as OOM-killed, and harms no other pod."""

from __future__ import annotations

import msgspec
import pytest

from workloads.scenario import JobSpec, Scenario, load_scenario

from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

HOG = "hog"


def with_a_hog() -> Scenario:
    """Return the scenario with a pod on the first node that uses a fifth more memory than the node has."""
    scenario = load_scenario("pi-two-nodes")
    hog = JobSpec(
        name=HOG,
        workload="stress",
        parameters={"vm": 1, "vm_bytes": scenario.cluster.each_node[0].memory_bytes * 6 // 5, "duration_s": 60},
        pods=1,
        placement="first",
        disturbance=True,
        backoff_limit=0,
    )
    return msgspec.structs.replace(scenario, jobs=[hog, *scenario.jobs])


def test_a_pod_killed_for_memory_is_recognised(carico_experiment):
    for run in carico_experiment.run(with_a_hog(), "carico"):
        every_pod_completed_once(run)
        assert [(pod.outcome, pod.node) for pod in run.pods if pod.job == HOG] == [("oom_killed", "node-0")]
