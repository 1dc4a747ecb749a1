"""Checks that this machine has enough free memory and, measured for a moment, enough free CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from testbed.requirements import Problem
from testbed.results.provenance import meminfo_bytes

UPTIME = Path("/proc/uptime")
FREE_CPUS = 0.25
"""With less, every wait for a real cluster times out."""
MOMENT_S = 0.5
MOMENTS = 10
"""The best of this many moments counts, because another program may just be ending or be busy only briefly."""


def shortages(
    kind: str,
    needed_bytes: int,
    free_cpus: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
    uptime: Path = UPTIME,
) -> Iterator[Problem]:
    """Yield a problem for each resource of which too little is free.

    Parameters
    ----------
    kind : str
        The kind of cluster, for messages.
    needed_bytes : int
        Free memory that is needed.
    free_cpus : float
        CPUs that must be idle for a moment; not measured if this is 0 or `uptime` does not exist.
    sleep : callable
    uptime : Path
        The file with the seconds for which all CPUs together were idle.
    """
    remedy = "end other programs, or run fewer processes"
    available = meminfo_bytes("MemAvailable")
    if available is not None and available < needed_bytes:
        what = f"{_size(needed_bytes)} of memory, {_size(available)} are available"
        yield Problem(f"a {kind} cluster needs {what}", remedy)
    if free_cpus and uptime.exists():
        found = 0.0
        for _ in range(MOMENTS):
            found = max(found, _free_cpus(sleep, uptime))
            if found >= free_cpus:
                return
        what = f"{free_cpus:g} free CPUs, at most {found:.2f} were free in {MOMENTS * MOMENT_S:g} s"
        yield Problem(f"a {kind} cluster needs {what}", remedy)


def _free_cpus(sleep: Callable[[float], None], uptime: Path) -> float:
    began, idle_before = _uptime(uptime)
    sleep(MOMENT_S)
    ended, idle_after = _uptime(uptime)
    return (idle_after - idle_before) / max(ended - began, 1e-2)


def _uptime(file: Path) -> tuple[float, float]:
    up, idle = file.read_text(encoding="ascii").split()
    return float(up), float(idle)


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
