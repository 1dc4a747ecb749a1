"""Measures how often a gate is wrong: fails for a scheduler that is the same, or passes one that has become worse.

Each case runs on many seeds, as it is and with a fault that no setting of its results shows. Gates are made of these
repetitions, with as many seeds as the preset `ci` has. For false alarms, baseline and candidate are the same scheduler
on disjoint seeds. For faults, the candidate has the baseline's seeds, as in CI on the simulated cluster, or others, as
on real clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.common import parse, parser, report
from carico.files import write_whole
from testbed.comparison.conditions import conditions
from testbed.comparison.gate import LEVEL, judge
from testbed.comparison.measured import Measured, Series, measured
from testbed.experiment.presets import PRESETS
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import Scenario, load_scenario

CASES = (
    ("pi-2000", 1000, "kube-scheduler:cpu=500m"),
    ("pi-2000", 1000, "carico"),
    ("pi-2000", 1000, "carico:variant=demand"),
    ("sklearn", 100, "kube-scheduler:cpu=1000m"),
)
REPETITIONS = PRESETS["ci"].repetitions_of(gate=True)
GATE = ("job_completion_time:+2%", "pod_completion_time:mean:+2%")
AS_IT_IS, SLOW, LATE = "as it is", "pods 5 % slower", "reports 2 s late"
POWER = 0.95
"""How often each fault should be found."""


def main() -> None:
    """Measure and print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=40, metavar="N", help="seeds of each case (default: 40)")
    arguments.add_argument("--gates", type=int, default=2000, metavar="N", help="gates of a kind (default: 2000)")
    arguments.add_argument("--processes", type=int, default=1, metavar="N", help="repetitions at a time (default: 1)")
    arguments.add_argument(
        "--kept", type=Path, metavar="FILE", help="keep what repetitions measured, or take it from here"
    )
    options = parse(arguments)
    if options.seeds < 2 * REPETITIONS:
        arguments.error(f"--seeds: {2 * REPETITIONS} are needed, got {options.seeds}")
    known: dict[str, Measured] = {}
    if options.kept is not None and options.kept.exists():
        known = msgspec.json.decode(options.kept.read_bytes(), type=dict[str, Measured])
    figures: dict[str, float] = {}
    print("| scenario, pods, scheduler | candidate | same seeds | other seeds |")
    print("|---|---|---|---|")
    with ProcessPoolExecutor(options.processes) as pool:
        for case in CASES:
            name = "{}, {}, {}".format(*case)
            for fault in (AS_IT_IS, SLOW, LATE):
                if fault == LATE and "carico" not in case[2]:
                    continue  # kube-scheduler gets no reports
                key = f"{name}, {fault}, {options.seeds}"
                if key not in known:
                    runs = pool.map(partial(_run, *case, fault), range(7001, 7001 + options.seeds))
                    known[key] = _together(list(runs))
                    if options.kept is not None:
                        write_whole(options.kept, msgspec.json.encode(known))
                rates = failing(known[f"{name}, {AS_IT_IS}, {options.seeds}"], known[key], options.gates)
                if fault == AS_IT_IS:
                    del rates["same seeds"]  # the same bytes
                cells = " | ".join(f"{100 * rates[kind]:.1f} %" if kind in rates else "" for kind in SEEDS)
                print(f"| {name} | {fault} | {cells} |", flush=True)
                figures |= {f"{name}:{fault}:{kind}": rate for kind, rate in rates.items()}
    alarms = max(rate for kind, rate in figures.items() if f":{AS_IT_IS}:" in kind)
    found = min(rate for kind, rate in figures.items() if kind.endswith(":same seeds"))
    print(f"\nfalse alarms: at most {100 * alarms:.1f} % (aim: {100 * LEVEL:g} %)")
    print(f"faults found with the same seeds: at least {100 * found:.1f} % (aim: {100 * POWER:g} %)")
    report("gate", figures, options.json)


def _run(scenario: str, pods: int, scheduler: str, fault: str, seed: int) -> Measured:
    shape = load_scenario(scenario).scaled(pods=pods)
    parameters = parameters_from({"report_delay_s": 2.0} if fault == LATE else {})
    run = SimulatedCluster(_slower(shape) if fault == SLOW else shape, parse_spec(scheduler), seed, parameters).run()
    # The fault must not show in what decides whether results are comparable.
    (found,) = measured([msgspec.structs.replace(run, settings={})])
    return found


def _slower(scenario: Scenario) -> Scenario:
    pools = [msgspec.structs.replace(pool, speed=pool.speed / 1.05) for pool in scenario.cluster.each_pool]
    return msgspec.structs.replace(scenario, cluster=msgspec.structs.replace(scenario.cluster, pools=pools))


def _together(runs: Sequence[Measured]) -> Measured:
    series = [
        Series(*key, [one.by_seed(figure).get(one.seeds[0]) for one in runs])
        for figure in dict.fromkeys(series.figure for one in runs for series in one.series)
        for key in [(figure.metric, figure.statistic, figure.of)]
    ]
    return msgspec.structs.replace(runs[0], seeds=[one.seeds[0] for one in runs], series=series)


def _chosen(whole: Measured, places: Sequence[int]) -> Measured:
    def of(values: Sequence[float | None]) -> list[float | None]:
        return [values[place] for place in places]

    return msgspec.structs.replace(
        whole,
        seeds=[whole.seeds[place] for place in places],
        series=[msgspec.structs.replace(one, values=of(one.values)) for one in whole.series],
    )


Draw = Callable[[np.random.Generator, int], tuple[Sequence[int], Sequence[int]]]


def _same(rng: np.random.Generator, seeds: int) -> tuple[Sequence[int], Sequence[int]]:
    places = rng.choice(seeds, REPETITIONS, replace=False).tolist()
    return places, places


def _others(rng: np.random.Generator, seeds: int) -> tuple[Sequence[int], Sequence[int]]:
    places = rng.choice(seeds, 2 * REPETITIONS, replace=False).tolist()
    return places[:REPETITIONS], places[REPETITIONS:]


SEEDS: Mapping[str, Draw] = {"same seeds": _same, "other seeds": _others}


def failing(reference: Measured, candidate: Measured, gates: int) -> dict[str, float]:
    """Return the share of gates that fail, by whether the candidate has the baseline's seeds."""
    wanted = conditions(GATE)
    rates = {}
    for kind, draw in SEEDS.items():
        rng = np.random.default_rng(1)
        failed = 0
        for _ in range(gates):
            theirs, ours = draw(rng, len(reference.seeds))
            failed += not judge([_chosen(reference, theirs)], [_chosen(candidate, ours)], wanted).passed
        rates[kind] = failed / gates
    return rates


if __name__ == "__main__":
    main()
