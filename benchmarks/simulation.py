"""Measures what simulation costs: 1000 pods under CARICO and kube-scheduler, and the growth with the cluster's size.

Figures are CPU times of this process, the best of three runs where these take only seconds. Other load on the machine
still makes them larger, because caches and cores are shared. A node-second costs most in a small cluster, where fewer
nodes share the fixed cost of numpy in every tick.
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.common import parse, parser, run
from carico.model.node_model import RESOURCES, NodeModel
from carico.model.variants import DEFAULT_VARIANT
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from testbed.simulation.provider import SimulatedProvider
from workloads.scenario import ClusterShape, JobSpec, Scenario, load_scenario

SEED = 1001
ROUNDS = 3
NODES = 10_000
ALL_AT_ONCE = {
    "pod_creations_per_s": 1e6,
    "pod_creations_burst": 1_000_000,
    "scheduling_attempts_per_s": 1e6,
    "bindings_per_s": 1e6,
    "bindings_burst": 1_000_000,
    "warm_up_s": 0,
}
"""Parameters of a control plane that is no bottleneck, so that all nodes are busy from the start."""


def main() -> int:
    """Measure, print the table and write the figures."""
    return run("simulation", measure, parse(parser(__doc__)).json)


def measure() -> dict[str, float]:
    """Return all figures."""
    step_s, second_s = node_model_s()
    return {
        "carico_1000_pods_cpu_s": repetition_s("carico"),
        "kube_1000_pods_cpu_s": repetition_s("kube-scheduler"),
        "node_model_step_10000_ms": 1e3 * step_s,
        "node_model_second_10000_ms": 1e3 * second_s,
        "realtime_factor_1000_nodes": realtime_factor(),
        "node_second_us_19": 1e6 * node_second_s(19, ROUNDS),
        "node_second_us_5000": 1e6 * node_second_s(5000, 1),
        "peak_rss_5000_nodes_mib": peak_rss_mib(5000),
    }


def repetition_s(scheduler: str) -> float:
    """Return the CPU time of a repetition of pi-2000 under a scheduler, seconds."""
    scenario, spec = load_scenario("pi-2000"), parse_spec(scheduler)
    rounds = []
    for _ in range(ROUNDS):
        before = process_time()
        SimulatedProvider().check(scenario, spec, {}).run(SEED)
        rounds.append(process_time() - before)
    return min(rounds)


def realtime_factor() -> float:
    """Return simulated seconds per second of CPU time, with 10,000 pods under CARICO on 1,000 nodes."""
    scenario = load_scenario("pi-2000").scaled(pods=10_000, nodes=1000)
    before = process_time()
    repetition = SimulatedProvider().check(scenario, parse_spec("carico"), {}).run(SEED)
    return repetition.nodes[0].time_s[-1] / (process_time() - before)


def busy_nodes_s(nodes: int, seconds: float) -> float:
    """Return the CPU time of a run with four pods on every node from the start and observing agents, seconds."""
    load = JobSpec(
        name="load", workload="stress", parameters={"cpu": 2, "cpu_load": 60, "duration_s": 1e5}, pods=4 * nodes
    )
    shape = ClusterShape(nodes=nodes)
    scenario = Scenario(name="busy", description="steady load", jobs=[load], cluster=shape, limit_s=seconds)
    spec, parameters = parse_spec("kube-scheduler:cpu=500m"), parameters_from(ALL_AT_ONCE)
    before = process_time()
    SimulatedCluster(scenario, spec, SEED, parameters, observer=DEFAULT_VARIANT).run()
    return process_time() - before


def node_second_s(nodes: int, rounds: int) -> float:
    """Return the CPU time that a longer run adds for each second of a busy node and its agent, seconds."""
    short_s, long_s = 20.0, 50.0
    differences = (busy_nodes_s(nodes, long_s) - busy_nodes_s(nodes, short_s) for _ in range(rounds))
    return min(differences) / (nodes * (long_s - short_s))


def peak_rss_mib(nodes: int) -> float:
    """Return the peak memory of a process that simulates this many nodes for 50 s and holds the result, MiB."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak_rss_mib, (nodes,))


def _peak_rss_mib(nodes: int) -> float:
    busy_nodes_s(nodes, 50.0)
    # Not ru_maxrss, which a process inherits from the one that forked it.
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM: this needs Linux")


def node_model_s() -> tuple[float, float]:
    """Return the CPU time of a 1 Hz step of 10,000 nodes, and of the step with its ten samples, seconds."""
    rng = np.random.default_rng(SEED)
    model = NodeModel(nodes=NODES)
    load = rng.uniform(0.0, 0.9, (NODES, len(RESOURCES)))
    steps, whole = [], []
    for second in range(ROUNDS + 1):
        samples = np.clip(load + rng.normal(0.0, 0.05, (DEFAULT_VARIANT.batch_size, *load.shape)), 0.0, 1.0)
        began = process_time()
        for tick, sample in enumerate(samples, start=1):
            model.observe(sample, second + tick / DEFAULT_VARIANT.batch_size)
        observed = process_time()
        model.step(second + 1.0)
        stepped = process_time()
        # Pods start, so that the next step has costs to learn.
        model.pod_event(rng.integers(0, 2, NODES), second - 0.5)
        if second:  # the first second, which allocates and initialises, is not measured
            steps.append(stepped - observed)
            whole.append(stepped - began)
    return min(steps), min(whole)


if __name__ == "__main__":
    sys.exit(main())
