"""Judges reservations in clusters that fail, and prints a table of faults.

A violation's run can be repeated: `--seed N --fault NAME --runs 1 -v` prints the history around the first violation.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

from benchmarks.common import parse, parser, report
from benchmarks.robustness.faults import FAULTS, fault_named
from benchmarks.robustness.history import Findings
from benchmarks.robustness.run import Run
from carico.demand.settings import DEMAND
from carico.variants import VARIANTS


def main() -> int:
    """Run, print the table, and return 1 if a pod was placed beyond the bound, lost or starved, or something leaked."""
    options = _options()
    logging.disable(logging.CRITICAL)
    figures: dict[str, float] = {}
    total = Findings()
    began = time.process_time()
    print(
        "| fault | pods | faults | over capacity | most at once | beyond the bound | lost | leaks "
        "| waited beside room, s (at most) | room unused, s (at most) |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.jobs) as pool:
        for fault in options.fault or FAULTS:
            seeds = range(options.seed, options.seed + options.runs)
            results = pool.map(
                judge,
                repeat(options.variant),
                repeat(fault),
                seeds,
                repeat(options.pods),
                repeat(options.verbose),
                repeat(not options.until_running),
                repeat(options.older_agents),
            )
            found, failing = Findings(), []
            for seed, (findings, lines) in zip(seeds, results, strict=True):
                found.add(findings)
                if not findings.clean:
                    failing.append(seed)
                if options.verbose:
                    print(*lines, sep="\n")
            total.add(found)
            allowed = fault_named(fault, options.older_agents)
            print(
                f"| {fault} | {found.pods} | {found.faults} | {found.over} | {found.worst} | {found.beyond} "
                f"| {found.lost} | {len(found.leaks)} | {found.waited_s:.0f} ({allowed.waited_s:.0f}) "
                f"| {found.unused_s:.0f} ({allowed.unused_s:.0f}) |",
                flush=True,
            )
            if failing:
                print(f"  seeds with violations: {', '.join(map(str, failing[:10]))}{', ...' * (len(failing) > 10)}")
            figures |= {
                f"{fault}:{name}": float(getattr(found, name))
                for name in (
                    "pods",
                    "faults",
                    "over",
                    "worst",
                    "late",
                    "beyond",
                    "lost",
                    "starved",
                    "waited_s",
                    "unused_s",
                )
            }
    print(
        f"{total.pods} pods, {total.faults} faults, {total.over} over capacity, {total.beyond} beyond the bound, "
        f"{total.late} bound late, {total.lost} lost, {total.starved} starved, {len(total.leaks)} leaks"
    )
    report("robustness", figures | {"cpu_s": time.process_time() - began}, options.json)
    return int(not total.clean)


def judge(
    variant: str,
    fault: str,
    seed: int,
    pods: int,
    verbose: bool = False,
    until_counted: bool = True,
    older_agents: bool = False,
) -> tuple[Findings, list[str]]:
    """Run one cluster; return what was found, and the history around the first violation if it is wanted."""
    with tempfile.TemporaryDirectory() as folder:
        history = Run(variant, fault, seed, pods, Path(folder), until_counted, older_agents).run()
    return history.findings, history.around_first() if verbose else []


def _options() -> argparse.Namespace:
    arguments = parser(__doc__)
    arguments.add_argument("--variant", choices=VARIANTS, default=DEMAND.name, help="default: %(default)s")
    arguments.add_argument(
        "--fault", choices=FAULTS, action="append", metavar="NAME", help=f"one of {', '.join(FAULTS)}; default: all"
    )
    arguments.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed (default: 1)")
    arguments.add_argument("--runs", type=int, default=10, metavar="N", help="seeds of each fault (default: 10)")
    arguments.add_argument("--pods", type=int, default=100, metavar="N", help="pods of each run (default: 100)")
    arguments.add_argument(
        "--until-running",
        action="store_true",
        help="let the reservations of the thesis's variants end when pods run, as in the thesis (§4.4)",
    )
    arguments.add_argument(
        "--older-agents",
        action="store_true",
        help="let the agents of the thesis's variants be too old to say which pods they count",
    )
    arguments.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at the same time (default: 1)")
    arguments.add_argument(
        "-v", "--verbose", action="store_true", help="print what happened around the first violation"
    )
    return parse(arguments)


if __name__ == "__main__":
    sys.exit(main())
