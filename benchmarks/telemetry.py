"""Measures the CPU time of a sample: with our readers of procfs and cgroups, and with psutil plus pressure files.

The readers take turns in many short rounds, so that disturbances affect all of them; a figure is the median of the
rounds. psutil has no pressure stall information, so its rounds open and parse the three pressure files as well.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil

from benchmarks.common import parse, parser, report
from carico.errors import TelemetryError
from carico.telemetry.cgroup import CgroupSource
from carico.telemetry.procfs import ProcfsSource

ROUNDS = 100
_READS = 50
"""Samples in a round."""
_PRESSURES = tuple(Path("/proc/pressure") / what for what in ("cpu", "memory", "io"))


def main() -> int:
    """Measure, print and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of each reader (default: {ROUNDS})")
    options = parse(arguments)
    if not 3 <= options.rounds <= 100_000:
        arguments.error(f"--rounds must be in [3, 100000], got {options.rounds}")
    try:
        figures = measure(options.rounds)
    except TelemetryError as error:
        print(f"benchmarks.telemetry: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for name, value in figures.items():
        print(f"{name:32} {value:8.1f}")
    report("telemetry", figures, options.json)
    return 0


def measure(rounds: int) -> dict[str, float]:
    """Return the microseconds of a sample with each reader that works on this machine."""
    with ExitStack() as opened:
        readers: dict[str, Callable[[], object]] = {
            "sample_us": opened.enter_context(ProcfsSource()).read,
            "sample_psutil_us": _psutil_sample,
        }
        try:
            readers["sample_cgroup_us"] = opened.enter_context(CgroupSource()).read
        except TelemetryError as error:
            print(f"no figure for cgroups: {error}", file=sys.stderr)
        times: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(rounds):
            for name, read in readers.items():
                times[name].append(_cpu_us(read))
    figures = {name: statistics.median(values) for name, values in times.items()}
    return figures | {"psutil_ratio": figures["sample_psutil_us"] / figures["sample_us"]}


def _cpu_us(read: Callable[[], object]) -> float:
    # CPU time, because other processes share the CPUs.
    started_ns = time.process_time_ns()
    for _ in range(_READS):
        read()
    return (time.process_time_ns() - started_ns) / 1e3 / _READS


def _psutil_sample() -> tuple[object, ...]:
    waited = [int(file.read_bytes().partition(b"total=")[2].partition(b"\n")[0]) for file in _PRESSURES]
    return psutil.cpu_times(), psutil.virtual_memory(), waited


if __name__ == "__main__":
    sys.exit(main())
