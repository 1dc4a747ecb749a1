"""Measures what the preset `smoke` takes: the whole evaluation of the thesis, once, on the simulated cluster.

What other programs of the machine do must not decide: how much is simulated does not depend on the machine, and CPU
time is compared with that of single repetitions before and afterwards, which is in `benchmarks.simulation`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import fmean
from time import process_time

from benchmarks.common import parse, parser, report
from testbed.results.store import read_results
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import load_scenario

AIM = 120
"""Single repetitions: three minutes at the 1.5 s that one takes on an otherwise idle machine."""
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure and print the figures."""
    options = parse(parser(__doc__))
    single = [_single_s() for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", str(ROOT / "tests" / "cluster"), "-q", "-m", "cluster"),
                *("-p", "no:cacheprovider", "--carico-preset=smoke", "--carico-json", f"{folder}/result.json"),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,  # some claims hold on more than half of the seeds, but not on this one
            stdout=subprocess.DEVNULL,
        )
        after = getrusage(RUSAGE_CHILDREN)
        repetitions = read_results(Path(folder, "result.json")).repetitions
    single += [_single_s() for _ in range(2)]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    pods = sum(len(one.pods) for one in repetitions)
    node_seconds = sum(len(node.time_s) for one in repetitions for node in one.nodes)
    print(f"{len(repetitions)} repetitions, {pods} pods, {node_seconds} seconds of nodes are simulated")
    print(f"in {cpu_s:.0f} s of CPU time, as long as {cpu_s / fmean(single):.0f} single repetitions (aim: {AIM})")
    figures = {"repetitions": len(repetitions), "pods": pods, "node_seconds": node_seconds}
    report("smoke", figures | {"cpu_s": cpu_s, "single_s": fmean(single)}, options.json)


def _single_s() -> float:
    """Return the CPU time of a repetition of pi-2000 under CARICO."""
    scenario, scheduler = load_scenario("pi-2000"), parse_spec("carico")
    before_s = process_time()
    SimulatedCluster(scenario, scheduler, 1001, parameters_from({})).run()
    return process_time() - before_s


if __name__ == "__main__":
    main()
