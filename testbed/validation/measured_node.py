"""Measures a kind cluster before runs are compared: what containers cost on a node, and what the platform requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from carico.telemetry.cgroup import CgroupSource
from testbed.real.kind.maker import KindMaker
from testbed.real.lifecycle import Cluster
from testbed.real.namespaces import namespace_of_run
from testbed.real.platform import Prepared
from testbed.requirements import Problem
from testbed.validation.bursts import burst, idle_node
from testbed.validation.container_costs import ContainerCosts
from workloads.quantity import memory_bytes, millicpu
from workloads.scenario import Scenario

TURNS = 3
"""Bursts of each size, by default."""
SEVERAL = 4
"""Pods of the larger bursts: as many as a scheduler that counts requests places at once on a node of half a CPU."""
IDLE_S = 20.0

Say = Callable[[str], None]


def rights_problem() -> list[Problem]:
    """Return what is missing to read the nodes' counters from outside, where reading costs the nodes nothing."""
    if os.geteuid() == 0:
        return []
    return [Problem("the counters of kind's nodes are read as root", "run it as root (sudo)")]


def measured_costs(
    cluster: Cluster,
    maker: KindMaker,
    prepared: Prepared,
    scenario: Scenario,
    *,
    run: str,
    say: Say,
    turns: int,
) -> ContainerCosts:
    """Measure what containers cost on the first node.

    Parameters
    ----------
    cluster : Cluster
        Idle, and prepared for the scenario.
    maker : KindMaker
    prepared : Prepared
    scenario : Scenario
    run : str
        The value of our label.
    say : callable
        Called with messages about the progress.
    turns : int
        Bursts of each size.

    Raises
    ------
    ClusterError, KubeError, TelemetryError
        If the cluster fails, or its API or counters cannot be read.
    """
    node = next(iter(prepared.names))
    spec = {**prepared.template(scenario.jobs[0], [])["spec"], "nodeName": node}
    with counters_of(maker, node) as source:
        say(f"an idle node, {IDLE_S:g} s")
        before = idle_node(source, IDLE_S)
        bursts = []
        for turn in range(turns):
            for pods in (1, SEVERAL):
                say(f"what starting {pods} pod{'s' * (pods > 1)} costs, {turn + 1} of {turns}")
                namespace = f"carico-burst-{turn}-{pods}-{run.lower()}"
                with namespace_of_run(cluster.api, namespace, run):
                    bursts.append(burst(cluster.api, namespace, spec=spec, source=source, pods=pods))
    return ContainerCosts(scenario.cluster.each_node[0].cores, before, bursts)


def counters_of(maker: KindMaker, node: str) -> CgroupSource:
    """Return the counters of a node's own control group, read from outside the node."""
    pid = maker.docker.call("inspect", "--format", "{{.State.Pid}}", node).strip()
    return CgroupSource(Path("/proc", pid, "root/sys/fs/cgroup"))


def platform_requests(cluster: Cluster, nodes: Sequence[str]) -> dict[str, int]:
    """Return the requests of the platform's pods on the first node, as parameters of the simulated cluster."""
    pods, _ = cluster.api.pods_on(nodes[0]).list()
    wanted = [_requests(container) for pod in pods for container in pod["spec"]["containers"]]
    return {
        "platform_millicpu": sum(millicpu(one.get("cpu", "0")) for one in wanted),
        "platform_memory_mib": round(sum(memory_bytes(one.get("memory", "0")) for one in wanted) / 2**20),
    }


def _requests(container: Mapping[str, Any]) -> Mapping[str, str]:
    return (container.get("resources") or {}).get("requests") or {}
