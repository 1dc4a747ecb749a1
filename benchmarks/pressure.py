"""Does the kernel's CPU pressure on this machine follow the formula that the simulated nodes use?

The kernel counts pressure per CPU (some task waits for this CPU) and averages over CPUs. With n processes that never
rest on c CPUs, each CPU beyond c of them has one that waits: (n - c) / c, from 0 to 1. Spawns 0 to 2 c such processes
and compares; other load on the machine shows as pressure too, so leave it alone meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.common import parse, parser, report
from carico.errors import TelemetryError
from carico.telemetry.counters import Telemetry, telemetry_between
from carico.telemetry.procfs import ProcfsSource

_SETTLE_S = 0.5
"""Interpreters start and the kernel spreads them over the CPUs before anything counts."""
_HOG = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


def main() -> int:
    """Measure every level, print the table and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--seconds", type=float, default=3.0, help="how long each number of processes is measured (default: 3)"
    )
    options = parse(arguments)
    if not 0.1 <= options.seconds <= 3600:
        arguments.error(f"--seconds must be in [0.1, 3600], got {options.seconds}")
    try:
        figures = measure(options.seconds)
    except TelemetryError as error:
        print(f"benchmarks.pressure: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    report("pressure", figures, options.json)
    return 0


def measure(seconds: float) -> dict[str, float]:
    """Return utilisation, pressure and what the formula says at every number of busy processes."""
    cpus = len(os.sched_getaffinity(0))
    if cpus != os.cpu_count():
        # Pressure is the machine's; processes that may not use all of it cannot fill it.
        print(f"this process may use {cpus} of {os.cpu_count()} CPUs: the formula does not apply", file=sys.stderr)
    figures: dict[str, float] = {}
    errors = []
    print(f"{'busy processes':>14}  {'utilisation':>11}  {'pressure':>8}  {'formula':>7}  {'difference':>10}")
    with ProcfsSource() as source:
        for hogs in range(2 * cpus + 1):
            telemetry = _under_load(source, hogs, seconds)
            formula = min(max((hogs - cpus) / cpus, 0.0), 1.0)
            utilisation, pressure = float(telemetry.cpu_utilisation), float(telemetry.cpu_pressure)
            errors.append(abs(pressure - formula))
            figures[f"utilisation_at_{hogs}_hogs"] = utilisation
            figures[f"pressure_at_{hogs}_hogs"] = pressure
            figures[f"pressure_formula_at_{hogs}_hogs"] = formula
            print(
                f"{hogs:14d}  {utilisation:11.3f}  {pressure:8.3f}  {formula:7.3f}  {pressure - formula:+10.3f}",
                flush=True,
            )
    figures["largest_pressure_error"] = max(errors)
    print(f"largest difference: {max(errors):.3f}")
    return figures


def _under_load(source: ProcfsSource, hogs: int, seconds: float) -> Telemetry:
    with _busy_processes(hogs, at_most_s=60 + 2 * seconds):
        time.sleep(_SETTLE_S)
        before = source.read()
        time.sleep(seconds)
        return telemetry_between(before, source.read())


@contextmanager
def _busy_processes(number: int, at_most_s: float) -> Iterator[None]:
    """Keep that many processes busy; should nobody be left to end them, they end by themselves."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(number):
            running.append(subprocess.Popen([sys.executable, "-S", "-E", "-c", _HOG, str(at_most_s)]))  # noqa: PERF401
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
