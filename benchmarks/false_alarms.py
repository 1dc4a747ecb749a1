"""Measures how often a table of equal schedulers finds a difference: at most one table in twenty should.

Runs a scenario on many seeds under one scheduler. Tables are made of these repetitions: each takes disjoint seeds for
"schedulers" that are all the same one, and is judged as every table is. Whatever differs is a false alarm. Beside it
stands the rule that compares everything with the fastest and corrects nothing, and how often a scheduler that is slower
by a given share is found.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.common import parse, parser, report
from testbed.comparison.difference import Difference, difference, in_turns
from testbed.comparison.verdicts import GOOD, LEVEL, judged
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import load_scenario

CASES = (
    ("pi-2000", "kube-scheduler:cpu=250m"),
    ("pi-2000", "carico"),
    ("sklearn", "kube-scheduler:cpu=250m"),
)
SCHEDULERS, REPETITIONS = (2, 5, 8), (3, 5, 10, 20)
SLOWER = 1.05
"""How much slower the scheduler is that should be found."""


def main() -> None:
    """Measure and print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=160, metavar="N", help="seeds of each case (default: 160)")
    arguments.add_argument("--pods", type=int, default=100, metavar="N", help="pods of each job (default: 100)")
    arguments.add_argument("--tables", type=int, default=2000, metavar="N", help="tables of a kind (default: 2000)")
    arguments.add_argument("--processes", type=int, default=1, metavar="N", help="repetitions at a time (default: 1)")
    options = parse(arguments)
    if options.seeds < max(SCHEDULERS) * max(REPETITIONS):
        arguments.error(f"--seeds: {max(SCHEDULERS) * max(REPETITIONS)} are needed, got {options.seeds}")
    figures: dict[str, float] = {}
    print("| scenario, scheduler | spread | schedulers | n | paired | unpaired | fastest as reference | 5 % found |")
    print("|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.processes) as pool:
        for scenario, scheduler in CASES:
            run = partial(_completion_s, scenario, scheduler, options.pods)
            times = np.array(list(pool.map(run, range(5001, 5001 + options.seeds))))
            spread = float(np.log(times).std(ddof=1))
            for schedulers in SCHEDULERS:
                for repetitions in REPETITIONS:
                    rates = _rates(times, schedulers, repetitions, options.tables)
                    name = f"{scenario} {scheduler}"
                    cells = " | ".join(f"{100 * rate:.1f} %" for rate in rates.values())
                    print(f"| {name} | {100 * spread:.1f} % | {schedulers} | {repetitions} | {cells} |", flush=True)
                    figures |= {f"{name}:{schedulers}:{repetitions}:{kind}": rate for kind, rate in rates.items()}
    worst = max(rate for kind, rate in figures.items() if kind.endswith("paired"))
    print(f"\nfalse alarms of whole tables: at most {100 * worst:.1f} % (aim: {100 * LEVEL:g} %)")
    report("false_alarms", figures, options.json)


def _completion_s(scenario: str, scheduler: str, pods: int, seed: int) -> float:
    cluster = SimulatedCluster(
        load_scenario(scenario).scaled(pods=pods), parse_spec(scheduler), seed, parameters_from({})
    )
    completion = cluster.run().job_completion_time_s[scenario]
    assert completion is not None
    return completion


def _rates(times: npt.NDArray[np.float64], schedulers: int, repetitions: int, tables: int) -> dict[str, float]:
    """Return the shares of tables with a false alarm, by kind of comparison, and of those where 5 % are found."""
    rng = np.random.default_rng(schedulers * 1000 + repetitions)
    counts = dict.fromkeys(("paired", "unpaired", "fastest", "found"), 0)
    for _ in range(tables):
        rows = rng.choice(times, (schedulers, repetitions), replace=False)
        counts["paired"] += _alarm([in_turns(rows[0], other) for other in rows[1:]])
        counts["unpaired"] += _alarm([_unpaired(rows[0], other) for other in rows[1:]])
        fastest = rows[int(np.log(rows).mean(axis=1).argmin())]
        counts["fastest"] += any(in_turns(fastest, other).p_value < LEVEL for other in rows if other is not fastest)
        slower = [_unpaired(rows[0], factor * other) for factor, other in zip(_factors(rows), rows[1:], strict=True)]
        counts["found"] += judged(slower)[0] == "regressed"
    return {kind: count / tables for kind, count in counts.items()}


def _factors(rows: npt.NDArray[np.float64]) -> list[float]:
    return [SLOWER] + [1.0] * (len(rows) - 2)


def _unpaired(reference: npt.NDArray[np.float64], candidate: npt.NDArray[np.float64]) -> Difference:
    first = len(reference)
    return difference(dict(enumerate(reference)), dict(enumerate(candidate, first)))


def _alarm(differences: list[Difference]) -> bool:
    return any(verdict in GOOD for verdict in judged(differences))


if __name__ == "__main__":
    main()
