"""Measures what the core of the variant `demand` costs a scheduler, beside the thesis's core, with many nodes.

Nodes report thirty pods each, of many workloads, while pods of all workloads wait. Both cores take turns in every
round; a figure is the median of the rounds, in CPU time. Then only a few workloads wait, and all nodes are full. Before
all that, it is measured what it takes to know as many workloads as a scheduler remembers.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from time import process_time

import psutil

from benchmarks.common import parse, parser, run
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.scheduler import Scheduler
from carico.scheduling.wake_up import WakeUp

NODES, WORKLOADS, PODS = 10_000, 1_000, 30
ROUNDS = 5
_DECISIONS = 50
_FEW = 20
"""Workloads that wait while all nodes are full."""
KNOWN, KNOWING, TOLD_APART = 10_000, 1_000, 64
"""Workloads that are known, nodes that know them, and workloads that each of these nodes knows: the most possible."""


def main() -> int:
    """Measure, print and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", type=int, default=NODES, help="default: %(default)s")
    arguments.add_argument("--workloads", type=int, default=WORKLOADS, help="default: %(default)s")
    options = parse(arguments)
    if not (1 <= options.nodes <= 100_000 and 1 <= options.workloads <= 100_000):
        arguments.error("--nodes and --workloads must be in [1, 100000]")
    return run("demand", lambda: known() | measure(options.nodes, options.workloads), options.json)


def known() -> dict[str, float]:
    """Return what a scheduler takes that knows as many workloads as it remembers: CPU seconds, and MiB.

    `learned_s` is for the first report of every node, `remembered_s` for noting what all workloads cost, which is done
    every five seconds, `saved_s` for the content of a checkpoint, and `listed_s` for what `carico costs` asks for.
    """
    before = psutil.Process().memory_info().rss
    rng = random.Random(2)
    scheduler = DemandScheduler(DEMAND, WakeUp())
    figures = {}

    def timed(name: str, what: Callable[[], object]) -> None:
        began = process_time()
        what()
        figures[f"known_{name}"] = process_time() - began

    reports = [_report(f"node-{number}", KNOWN, rng, TOLD_APART) for number in range(KNOWING)]
    for report in reports:
        for uid, workload in report.counted.items():
            scheduler.pod_changed(uid, str(workload), report.node, ended=False, now=0.0, running=True)

    def learn() -> None:
        for report in reports:
            scheduler.report(report, 0.0)

    timed("learned_s", learn)
    timed("remembered_s", lambda: scheduler.tick(5.0))
    timed("saved_s", lambda: scheduler.save(5.0))
    timed("listed_s", lambda: scheduler.costs(5.0))
    return figures | {"known_mib": (psutil.Process().memory_info().rss - before) / 2**20}


def measure(nodes: int, workloads: int) -> dict[str, float]:
    """Return, for both cores, the microseconds of a report and the milliseconds of a decision among all nodes."""
    rng = random.Random(1)
    names = [f"node-{number}" for number in range(nodes)]
    # kube-scheduler's filters run at the same time, so that candidates come in another order in every request.
    orders = [rng.sample(names, nodes) for _ in range(10)]
    reports = [_report(name, workloads, rng) for name in names]
    changed = [_later(report, rng) for report in reports]
    demand, thesis = DemandScheduler(DEMAND, WakeUp()), Scheduler(CaricoPlugin(5.0), wake_up=WakeUp())
    for number in range(workloads):
        demand.pod_waits(f"waits-{number}", Kind(f"workload-{number}"))
    for report in reports:
        demand.report(report, 0.0)
        thesis.report(report.node, 100.0, 0.0)
    figures: dict[str, list[float]] = {}

    def timed(name: str, unit: float, times: int, what: Callable[[int], object]) -> None:
        began = process_time()
        for number in range(times):
            what(number)
        figures.setdefault(name, []).append((process_time() - began) / times * unit)

    for number in range(ROUNDS):
        told = (changed, reports)[number % 2]
        now = float(number)
        timed("report_us_demand", 1e6, nodes, lambda i: demand.report(told[i], now))  # noqa: B023  called at once
        timed("report_us_thesis", 1e6, nodes, lambda i: thesis.report(names[i], 100.0, now))  # noqa: B023
        timed(
            "decision_ms_demand",
            1e3,
            _DECISIONS,
            lambda i: demand.filter(f"{now}-{i}", Kind(f"workload-{rng.randrange(workloads)}"), orders[i % 10], now),  # noqa: B023
        )
        timed("decision_ms_thesis", 1e3, _DECISIONS, lambda i: thesis.filter(f"{now}-{i}", orders[i % 10], now).best)  # noqa: B023
    for number in range(_FEW, workloads):
        demand.pod_gone(f"waits-{number}", ROUNDS)
    full = [replace(report, demand_cores=Estimate(17.0, 0.1)) for report in reports[:1000]]
    timed("report_us_demand_full", 1e6, len(full), lambda i: demand.report(full[i], ROUNDS))
    return {name: statistics.median(values) for name, values in figures.items()}


def _report(node: str, workloads: int, rng: random.Random, number_of_pods: int = PODS) -> DemandReport:
    pods = {f"{node}-{number}": f"workload-{rng.randrange(workloads)}" for number in range(number_of_pods)}
    known = {
        name: WorkloadReport(list(pods.values()).count(name), 0.01, _estimate(rng), _estimate(rng))
        for name in set(pods.values())
    }
    return DemandReport(node, 16.0, 64.0, Estimate(15.0, 0.1), 20.0, 2.0, known, pods)


def _later(report: DemandReport, rng: random.Random) -> DemandReport:
    """Return the report a second later: a tenth of its estimates are news, and the others have faded a little."""
    known = {
        name: replace(each, cores=_estimate(rng), gib=_estimate(rng))
        if rng.random() < 0.1
        else replace(each, cores=_faded(each.cores), gib=_faded(each.gib))
        for name, each in report.workloads.items()
    }
    return replace(report, workloads=known)


def _faded(estimate: Estimate) -> Estimate:
    return Estimate(estimate.mean * 1.001, estimate.variance * 1.005)


def _estimate(rng: random.Random) -> Estimate:
    return Estimate(rng.uniform(0.3, 0.7), rng.uniform(0.001, 0.01))


if __name__ == "__main__":
    sys.exit(main())
