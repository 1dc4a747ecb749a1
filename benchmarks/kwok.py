"""Measures the extender with the real kube-scheduler on KWOK: its effect on throughput, and waits of refused pods.

Nodes and pods are API objects without machines. The control plane, kube-scheduler, and the extender with mutual TLS and
a report from every node once a second are real. kube-scheduler's default limit of 50 API calls a second is lifted.

Three kinds of runs take turns: kube-scheduler alone, kube-scheduler alone beside an extender that only receives
reports, and kube-scheduler with the extender. The second kind shows what the reports cost, because sender and receiver
share this machine.
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

from benchmarks.common import parse, parser, run
from benchmarks.cpus import cpus_used
from carico.clock import SystemClock
from testbed.cluster_options import ClusterOptions
from testbed.comparison.difference import in_turns
from testbed.programs.child_process import ChildProcess
from testbed.real.kwok.carico import LIFTED_QPS, LocalCarico, kube_scheduler_alone
from testbed.real.kwok.maker import KwokMaker
from testbed.real.kwok.platform import shape_nodes
from testbed.real.lifecycle import Cluster, MadeCluster
from testbed.real.namespaces import namespace_of_run
from testbed.real.platform import CARICO
from tests.kits.backlog import Backlog, scheduling
from tests.kits.refused_pod import NEVER_WAKE, RefusedPod
from workloads.scenario import ClusterShape

SLOTS = 2.0
"""How many pods fit on a node."""
BOUND_TIMEOUT_S = 600.0
FEW = 5
SLEEPS_TIMEOUT_S = 360.0
"""kube-scheduler retries a refused pod after five minutes, and checks for such pods every half minute."""
RUN = "benchmark"
ALONE, BESIDE, ASKING = "alone", "beside_reports", "extender"
_CLOCK = SystemClock()


def main() -> int:
    """Measure, print the table and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", type=int, default=1000, metavar="N", help="nodes (default: 1000)")
    arguments.add_argument("--pods", type=int, default=1000, metavar="N", help="pods of a backlog (default: 1000)")
    arguments.add_argument("--repetitions", type=int, default=2, metavar="N", help="runs of each kind (default: 2)")
    options = parse(arguments)
    return run("kwok", partial(measure, options), options.json)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Return all figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(MadeCluster(KwokMaker(), ClusterOptions(RUN))) as life,
    ):
        cluster = life.open()
        namespaces = (f"carico-{RUN}-{number}" for number in count())
        rates, cpus = _rates(cluster, Path(folder), partial(next, namespaces), options)
        sleeps = _sleeps(cluster, Path(folder), partial(next, namespaces))
    figures: dict[str, float] = {"nodes": options.nodes}
    figures |= {f"pods_per_s_{arm}": statistics.median(found) for arm, found in rates.items()}
    for arm in (BESIDE, ASKING):
        ratio = in_turns(rates[ALONE], rates[arm])
        figures |= {f"ratio_{arm}": ratio.effect, f"ratio_{arm}_low": ratio.low, f"ratio_{arm}_high": ratio.high}
    figures |= {f"cpus_{part}": statistics.median(one[part] for one in cpus) for part in cpus[0]}
    return figures | sleeps


def _rates(
    cluster: Cluster, folder: Path, namespace: Callable[[], str], options: argparse.Namespace
) -> tuple[dict[str, list[float]], list[dict[str, float]]]:
    """Return the pods bound per second in every run, and the CPUs used in the runs with the extender."""
    shape = ClusterShape(nodes=options.nodes)
    shape_nodes(cluster.api, shape)
    rates: dict[str, list[float]] = {ALONE: [], BESIDE: [], ASKING: []}
    used: list[dict[str, float]] = []
    carico = LocalCarico(cluster.kubeconfig, folder / "rates", dict.fromkeys(shape.node_names, SLOTS), LIFTED_QPS)
    alone = partial(kube_scheduler_alone, cluster.kubeconfig, folder, LIFTED_QPS)

    def take(arm: str, start: Callable[[], ChildProcess]) -> dict[str, float]:
        name = namespace()
        with namespace_of_run(cluster.api, name, RUN):
            backlog = Backlog(cluster.api, name, CARICO, _CLOCK)
            backlog.create(options.pods)
            with backlog.followed(), scheduling(start), cpus_used() as cpus:
                backlog.wait_until_bound(BOUND_TIMEOUT_S)
            rates[arm].append(backlog.pods_per_s)
            print(f"{arm}: {backlog.pods_per_s:.1f} pods/s", flush=True)
        return cpus

    for _ in range(options.repetitions):
        take(ALONE, alone)
        with closing(carico):
            carico.start("extender")
            carico.start("reports")
            carico.wait_until_reported()
            take(BESIDE, alone)
            used.append(take(ASKING, partial(carico.start, "kube-scheduler")))
    return rates, used


def _sleeps(cluster: Cluster, folder: Path, namespace: Callable[[], str]) -> dict[str, float]:
    """Return how long refused pods waited until they were tried again, seconds."""
    shape = ClusterShape(nodes=FEW)
    shape_nodes(cluster.api, shape)
    nodes = shape.node_names
    found = {}
    wake_up: dict[str, dict[str, float]] = {"with": {}, "without": NEVER_WAKE}
    for name, setting in wake_up.items():
        carico = LocalCarico(cluster.kubeconfig, folder / name, dict.fromkeys(nodes, 0.0), wake_up=setting)
        space = namespace()
        with namespace_of_run(cluster.api, space, RUN):
            pod = RefusedPod(cluster.api, space, carico, nodes=nodes, clock=_CLOCK)
            with pod.running():
                # Without wake-ups, the first node with room still wakes the pod; one of the long waits is enough.
                freed = nodes if name == "with" else nodes[:2]
                slept = [pod.sleep_s(node, SLEEPS_TIMEOUT_S) or SLEEPS_TIMEOUT_S for node in freed]
                found[f"refused_sleep_s_{name}"] = statistics.median(slept) if name == "with" else slept[-1]
                if name == "without":
                    woken = pod.sleep_s(nodes[2], SLEEPS_TIMEOUT_S, other_pod=True)
                    found["refused_sleep_s_other_pod"] = woken or SLEEPS_TIMEOUT_S
    return found


if __name__ == "__main__":
    sys.exit(main())
