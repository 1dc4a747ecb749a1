"""Measures what it is worth that nodes share what they learn, on the simulated cluster.

In every case nodes get pods that some of them do not know: nodes join late, the workload is new to half of the nodes,
agents have lost their checkpoints, the workload returns after all nodes have forgotten it, or each node sees only a few
pods of each of many workloads. Every case runs with and without sharing: the variant `demand` without what nodes tell
each other, and without what the scheduler remembers; the thesis's variant without the aggregation server.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from benchmarks.ablations import without
from benchmarks.common import parse, parser, report
from benchmarks.shapes import Outcome, mean, outcome_of
from testbed.comparison.intervals import mean_interval
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import read_scenario


@dataclass(frozen=True)
class Case:
    """A scenario, and when the agents of the second half of its nodes lose what they know."""

    jobs: tuple[str, ...]
    joining_s: float | None = None
    """When the second half of the nodes joins."""
    restarts_s: float | None = None

    @property
    def scenario(self) -> str:
        """The scenario's YAML."""
        lines = ["name: case", "description: a case", "cluster: {nodes: 8, cores: 4, memory: 8Gi}"]
        if self.joining_s is not None:
            joining = (f"{{node: {node}, at_s: {self.joining_s}, change: added}}" for node in SECOND_HALF)
            lines.append(f"node_changes: [{', '.join(joining)}]")
        return "\n".join([*lines, "jobs:", *(f"  - {{{job}}}" for job in self.jobs), ""])


SECOND_HALF = [f"node-{node}" for node in range(4, 8)]


def _cases(pods: int, workload: str) -> dict[str, Case]:
    before = f"name: before, {workload}, pods: {pods // 6}, backoff_limit: 1000, disturbance: true"
    job = f"name: job, {workload}, pods: {pods}, backoff_limit: 1000"
    return {
        "four of eight nodes join after 10 s": Case((job,), joining_s=10.0),
        "four of eight agents forget all after 10 s": Case((job,), restarts_s=10.0),
        "new to four of eight nodes": Case((before, f"{job}, start_s: 90"), joining_s=85.0),
        "returns after 25 minutes": Case((before, f"{job}, start_s: 1500")),
    }


WORKLOADS = {
    "light": (600, "workload: task, parameters: {cores: 0.1, cpu_seconds: 1, memory: 64Mi}"),
    "wide": (60, "workload: task, parameters: {cores: 3, cpu_seconds: 30}"),
    "growing": (120, "workload: task, parameters: {cores: 0.5, cpu_seconds: 10, memory: 1300Mi, growth: 0.5}"),
}
"""Number and kind of pods: a tenth of a core for ten seconds; three cores; memory that grows for half of the time."""
_MANY = "name: job-{0}, workload: task, parameters: {{cores: {1:.2f}, cpu_seconds: {2:.2f}}}, pods: 12"
CASES = {f"{name}: {case}": of for name, each in WORKLOADS.items() for case, of in _cases(*each).items()} | {
    "20 workloads of 12 pods": Case(
        tuple(_MANY.format(number, 0.1 + 0.05 * number, 0.8 + 0.4 * number) for number in range(20))
    )
}


@dataclass(frozen=True)
class Scheduler:
    """A scheduler with or without sharing."""

    spec: str
    alone: bool = False
    """Whether every node is judged by what it knows by itself."""


@dataclass(frozen=True)
class Sharing:
    """Something that is shared: a scheduler with it, and without it."""

    with_it: Scheduler
    without: Scheduler
    only: str = ""
    """Measured only in cases whose names contain this text."""


DEMAND = Scheduler("carico:variant=demand")
SHARED = {
    "costs": Sharing(DEMAND, Scheduler("carico:variant=demand", alone=True)),
    "memory of workloads": Sharing(DEMAND, Scheduler("carico:variant=demand,learned_s=1e12"), "returns"),
    "aggregate (thesis)": Sharing(
        Scheduler("carico:variant=thesis-rebased"), Scheduler("carico:variant=thesis-rebased,global_weight=0")
    ),
}


def measure(case: str, scheduler: Scheduler, seed: int) -> Outcome:
    """Run a case once."""
    with without("pooling" if scheduler.alone else ""):
        cluster = SimulatedCluster(
            read_scenario(CASES[case].scenario, case), parse_spec(scheduler.spec), seed, parameters_from({})
        )
    restarts_s = CASES[case].restarts_s
    if restarts_s is not None:
        cluster.restart_agents(SECOND_HALF, restarts_s)
    return outcome_of(cluster.run())


def main() -> None:
    """Measure and print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("cases", nargs="*", metavar="TEXT", help="only cases whose names contain one of these texts")
    arguments.add_argument("--what", nargs="+", choices=SHARED, default=[*SHARED], help="default: all of them")
    arguments.add_argument("--repetitions", type=int, default=6, metavar="N", help="seeds (default: %(default)s)")
    arguments.add_argument("--first-seed", type=int, default=1001, metavar="N", help="default: %(default)s")
    arguments.add_argument("--processes", type=int, default=2, metavar="N", help="default: %(default)s")
    options = parse(arguments)
    cases = [case for case in CASES if not options.cases or any(text in case for text in options.cases)]
    if not cases:
        arguments.error(f"no case is named {', '.join(options.cases)}; known cases: {'; '.join(CASES)}")
    seeds = range(options.first_seed, options.first_seed + options.repetitions)
    wanted = [(case, what) for what in options.what for case in cases if SHARED[what].only in case]
    runs = {
        (case, scheduler, seed)
        for case, what in wanted
        for scheduler in (SHARED[what].with_it, SHARED[what].without)
        for seed in seeds
    }
    figures: dict[str, float] = {}
    print("| without | case | JCT with it, s | ratio without it | PCT with it, s | ratio without it | killed |")
    print("|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.processes) as pool:
        outcomes = {run: pool.submit(measure, *run) for run in sorted(runs, key=str)}
        for case, what in wanted:
            shared, alone = (
                [outcomes[case, scheduler, seed].result() for seed in seeds]
                for scheduler in (SHARED[what].with_it, SHARED[what].without)
            )
            jct = [other.jct_s / one.jct_s for one, other in zip(shared, alone, strict=True)]
            pct = [other.pct_s / one.pct_s for one, other in zip(shared, alone, strict=True)]
            before, after = mean(shared), mean(alone)
            print(
                f"| {what} | {case} | {before.jct_s:.1f} | {_ratio(jct)} | {before.pct_s:.2f} | {_ratio(pct)} "
                f"| {before.killed:g}, {after.killed:g} |",
                flush=True,
            )
            figures |= {f"{what}:{case}:jct": float(np.mean(jct)), f"{what}:{case}:pct": float(np.mean(pct))}
            figures |= {f"{what}:{case}:killed": before.killed, f"{what}:{case}:killed_without": after.killed}
    report("sharing", figures, options.json)


def _ratio(values: list[float]) -> str:
    low, high = mean_interval(values)
    return f"{np.mean(values):.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
