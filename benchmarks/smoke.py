"""Measures what the preset `smoke` takes: the whole evaluation of the thesis, once, on the simulated cluster.

CPU time decides, which other programs of the machine change little, unlike the time on the clock. How much is simulated
does not depend on the machine at all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from benchmarks.common import parse, parser, report
from testbed.results.store import read_results

AIM_S = 180.0
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure and print the figures."""
    options = parse(parser(__doc__))
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
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    pods = sum(len(one.pods) for one in repetitions)
    node_seconds = sum(len(node.time_s) for one in repetitions for node in one.nodes)
    print(f"{len(repetitions)} repetitions, {pods} pods, {node_seconds} seconds of nodes are simulated")
    print(f"in {cpu_s:.0f} s of CPU time (aim: {AIM_S:g} s)")
    figures = {"repetitions": len(repetitions), "pods": pods, "node_seconds": node_seconds, "cpu_s": cpu_s}
    report("smoke", figures, options.json)


if __name__ == "__main__":
    main()
