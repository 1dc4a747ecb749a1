"""Measures a kind cluster on this machine: how long its creation takes, and its CPU and memory when idle.

Programs and images must exist; `carico-testbed images build` makes them and says how long that takes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import closing
from functools import partial

from benchmarks.common import parse, parser, run
from benchmarks.cpus import cpus_used
from carico.clock import SystemClock
from carico.model.variants import DEFAULT_VARIANT
from testbed.cluster_flags import WORKERS
from testbed.cluster_options import ClusterOptions
from testbed.experiment.preflight import listed
from testbed.real.carico import DeployedCarico
from testbed.real.kind.maker import KindMaker
from testbed.real.lifecycle import READY_TIMEOUT_S, Cluster, MadeCluster
from testbed.real.nodes import is_ready
from testbed.real.waiting import wait_until
from workloads.quantity import memory_bytes

RUN = "benchmark"
SETTLED_S = 20.0
"""Time after which the deployment's pods have finished starting."""


def main() -> int:
    """Measure, print the table and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--workers", type=int, default=WORKERS, metavar="N", help=f"(default: {WORKERS})")
    arguments.add_argument("--repetitions", type=int, default=3, metavar="N", help="clusters to make (default: 3)")
    arguments.add_argument(
        "--watched",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long to measure the idle cluster (default: 60)",
    )
    options = parse(arguments)
    maker = KindMaker(options.workers)
    if problems := maker.preflight():
        print(listed(problems), file=sys.stderr)
        return 1
    return run("kind", partial(measure, maker, options), options.json)


def measure(maker: KindMaker, options: argparse.Namespace) -> dict[str, float]:
    """Return the median of every figure over the clusters."""
    found = []
    for number in range(options.repetitions):
        with closing(MadeCluster(maker, ClusterOptions(RUN))) as life:
            found.append(_figures(life, maker, options.watched))
        print(f"cluster {number + 1}: ready after {found[-1]['ready_s']:.1f} s", flush=True)
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def _figures(life: MadeCluster, maker: KindMaker, watched_s: float) -> dict[str, float]:
    began = time.monotonic()
    cluster = life.open()
    wait_until("all nodes are ready", partial(_unready, cluster), READY_TIMEOUT_S)
    ready = time.monotonic()
    DeployedCarico(maker, SystemClock()).deploy(cluster, DEFAULT_VARIANT.name)
    deployed = time.monotonic()
    time.sleep(SETTLED_S)
    with cpus_used() as cpus:
        time.sleep(watched_s)
    used = _memory_mib(maker, cluster)
    control_plane = sum(mib for node, mib in used.items() if node.endswith("control-plane"))
    return {
        "ready_s": ready - began,
        "deployed_s": deployed - ready,
        "idle_memory_mib": sum(used.values()),
        "idle_memory_control_plane_mib": control_plane,
        "idle_memory_worker_mib": (sum(used.values()) - control_plane) / maker.workers,
        "idle_cpus": cpus["machine"],
    }


def _unready(cluster: Cluster) -> str:
    return ", ".join(node["metadata"]["name"] for node in cluster.api.nodes() if not is_ready(node))


def _memory_mib(maker: KindMaker, cluster: Cluster) -> dict[str, float]:
    """Return each node's memory in use, without the part of the page cache that the kernel may drop."""
    nodes = maker.nodes(cluster.name)
    output = maker.docker.call("stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}", *nodes)
    lines = (line.split() for line in output.splitlines())  # NAME 840.1MiB / 23GiB
    return {node: memory_bytes(used.removesuffix("B")) / 2**20 for node, used, *_ in lines}


if __name__ == "__main__":
    sys.exit(main())
