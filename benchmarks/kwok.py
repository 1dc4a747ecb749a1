"""CARICO's extender in the real kube-scheduler on KWOK: a backlog with it and without; how long refused pods sleep.

Nodes and pods are objects without machines; everything else is real: control plane, both kube-schedulers, the extender
with mutual TLS, and a report of every node once a second. kube-scheduler's own limit of 50 calls a second is lifted for
both. All of it runs on this machine, the reports' other end, too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.common import parse, parser, shown
from carico.clock import SystemClock
from testbed.clusters.backlog import Backlog, schedule
from testbed.clusters.fake_nodes import shape_nodes
from testbed.clusters.kwok import KwokMaker
from testbed.clusters.lifecycle import Cluster, ClusterLife
from testbed.clusters.local_carico import LIFTED_QPS, LocalCarico, kube_scheduler_alone
from testbed.clusters.namespaces import namespace_of_run
from testbed.clusters.platform import CARICO
from testbed.clusters.refused_pod import NEVER_WAKE, RefusedPod
from testbed.clusters.tethered import Tethered
from testbed.clusters.wishes import Wishes
from workloads.scenario import ClusterShape

SLOTS = 2.0
"""Pods that a node has room for."""
BOUND_TIMEOUT_S = 600.0
FEW = 5
SLEEPS_TIMEOUT_S = 360.0
"""kube-scheduler tries a refused pod again after five minutes, and looks every half minute."""
RUN = "benchmark"
_CLOCK = SystemClock()


def main() -> int:
    """Measure, print the table and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", type=int, default=1000, metavar="N", help="(default: 1000)")
    arguments.add_argument("--pods", type=int, default=1000, metavar="N", help="of a backlog (default: 1000)")
    arguments.add_argument("--repetitions", type=int, default=2, metavar="N", help="of each (default: 2)")
    options = parse(arguments)
    return shown("kwok", partial(measure, options), options.json)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Return all figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(ClusterLife(KwokMaker(), Wishes(RUN))) as life,
    ):
        cluster = life.open()
        namespaces = (f"carico-{RUN}-{number}" for number in count())
        rates = _rates(cluster, Path(folder), partial(next, namespaces), options)
        sleeps = _sleeps(cluster, Path(folder), partial(next, namespaces))
    alone, extender = (statistics.median(rates[name]) for name in ("alone", "extender"))
    return {
        "nodes": options.nodes,
        "pods_per_s_kube_scheduler": alone,
        "pods_per_s_extender": extender,
        "ratio": extender / alone,
        **sleeps,
    }


def _rates(
    cluster: Cluster, folder: Path, namespace: Callable[[], str], options: argparse.Namespace
) -> dict[str, list[float]]:
    """Return how many pods were bound a second, one after the other."""
    shape = ClusterShape(nodes=options.nodes)
    shape_nodes(cluster.api, shape)
    rates: dict[str, list[float]] = {"alone": [], "extender": []}

    def scheduled(start: Callable[[], Tethered]) -> float:
        name = namespace()
        with namespace_of_run(cluster.api, name, RUN):
            backlog = Backlog(cluster.api, name, CARICO, _CLOCK)
            schedule(backlog, options.pods, start, BOUND_TIMEOUT_S)
            print(f"{name}: {backlog.pods_per_s:.1f} pods/s", flush=True)
        return backlog.pods_per_s

    for number in range(options.repetitions):
        rates["alone"].append(scheduled(partial(kube_scheduler_alone, cluster.kubeconfig, folder, LIFTED_QPS)))
        slots = dict.fromkeys(shape.node_names, SLOTS)
        with closing(LocalCarico(cluster.kubeconfig, folder / str(number), slots, LIFTED_QPS)) as carico:
            carico.start("extender")
            carico.start("reports")
            carico.wait_until_reported()
            rates["extender"].append(scheduled(partial(carico.start, "kube-scheduler")))
    return rates


def _sleeps(cluster: Cluster, folder: Path, namespace: Callable[[], str]) -> dict[str, float]:
    """Return how long refused pods slept, seconds."""
    shape = ClusterShape(nodes=FEW)
    shape_nodes(cluster.api, shape)
    nodes = shape.node_names
    found = {}
    wake_up: dict[str, dict[str, float]] = {"with": {}, "without": NEVER_WAKE}
    for name, setting in wake_up.items():
        carico = LocalCarico(cluster.kubeconfig, folder / name, dict.fromkeys(nodes, 0.0), wake_up=setting)
        space = namespace()
        with namespace_of_run(cluster.api, space, RUN):
            pod = RefusedPod(cluster.api, space, carico, nodes, _CLOCK)
            with pod.running():
                # Without it the first room still wakes; and one sleep is long enough.
                asked = nodes if name == "with" else nodes[:2]
                slept = [pod.sleep_s(node, SLEEPS_TIMEOUT_S) or SLEEPS_TIMEOUT_S for node in asked]
                found[f"refused_sleep_s_{name}"] = statistics.median(slept) if name == "with" else slept[-1]
                if name == "without":
                    woken = pod.sleep_s(nodes[2], SLEEPS_TIMEOUT_S, other_pod=True)
                    found["refused_sleep_s_other_pod"] = woken or SLEEPS_TIMEOUT_S
    return found


if __name__ == "__main__":
    sys.exit(main())
