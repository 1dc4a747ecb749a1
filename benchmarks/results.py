"""Measures how long it takes to load, compare and report two runs of 1,000 pods and 20 repetitions.

Each figure is the CPU time of a process of its own, imports included; the median of several. One repetition is
simulated, and stands for all with other seeds: what is read is as large as what is measured.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.common import parse, parser, run
from testbed.results.schema import Repetition, Results
from testbed.results.store import write_results
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import load_scenario

REPETITIONS, PODS = 20, 1000
LOAD = "import sys; from testbed.results import load; load(*sys.argv[1:])"


def main() -> int:
    """Measure, print and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=3, metavar="N", help="processes for each figure (default: 3)")
    options = parse(arguments)
    return run("results", lambda: measure(options.rounds), options.json)


def measure(rounds: int) -> dict[str, float]:
    """Return CPU seconds, and the size of one run in MiB."""
    with tempfile.TemporaryDirectory() as name:
        one = _repetition()
        files = [Path(name) / "before.json", Path(name) / "after.json"]
        for number, file in enumerate(files):
            seeds = range(number * REPETITIONS, (number + 1) * REPETITIONS)
            write_results(file, Results([msgspec.structs.replace(one, seed=seed) for seed in seeds]))
        names = [str(file) for file in files]
        written = Path(name) / "page.html"
        commands = {
            "compare_cpu_s": ["-m", "testbed", "compare", *names],
            "load_cpu_s": ["-c", LOAD, *names],
            "report_cpu_s": ["-m", "testbed", "report", *names, "--html", str(written)],
        }
        figures = {
            figure: statistics.median(_cpu_s(command) for _ in range(rounds)) for figure, command in commands.items()
        }
        sizes = {"run_mib": files[0].stat().st_size / 2**20, "page_mib": written.stat().st_size / 2**20}
        return figures | sizes


def _repetition() -> Repetition:
    scenario = load_scenario("pi-2000").scaled(pods=PODS)
    return SimulatedCluster(scenario, parse_spec("carico"), 1, parameters_from({})).run()


def _cpu_s(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
