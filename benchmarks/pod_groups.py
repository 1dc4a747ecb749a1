"""Measures what reading the control groups of a node's pods costs: the CPU time of a reading of all of them.

By default, the groups are folders with the kernel's text, made for the purpose. On a node, --root /sys/fs/cgroup reads
the groups of its pods: there the kernel also sums up, when it is asked, what its CPUs have counted since.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import parse, parser, run
from carico.demand.settings import DEMAND
from carico.errors import PodEventsError
from carico.telemetry.kubepods import class_folders, find_kubepods, pods_in
from carico.telemetry.pod_groups import PodGroups

_PRESSURE = "avg10=0.00 avg60=0.00 avg300=0.00 total=123456789\n"
_FILES = {
    "cpu.stat": "usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\nnice_usec 0\n"
    "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\nburst_usec 0\n",
    "cpu.pressure": f"some {_PRESSURE}full {_PRESSURE}",
    "memory.current": "314572800\n",
    "memory.stat": "anon 209715200\nfile 104857600\n" + "".join(f"workingset_event_{n} 1234567\n" for n in range(60)),
}


def main() -> int:
    """Run the benchmark and return the exit code."""
    arguments = parser(__doc__)
    arguments.add_argument("--pods", type=int, default=110, help="pods made (default: 110, a kubelet's most)")
    arguments.add_argument("--rounds", type=int, default=100, help="readings (default: 100)")
    arguments.add_argument("--root", type=Path, help="read these control groups, and make none")
    options = parse(arguments)
    if not 1 <= options.pods <= 10_000:
        arguments.error(f"--pods must be in [1, 10000], got {options.pods}")
    if not 3 <= options.rounds <= 100_000:
        arguments.error(f"--rounds must be in [3, 100000], got {options.rounds}")
    if options.root is not None:
        try:
            return run("pod_groups", lambda: measure(options.root, options.rounds), options.json)
        except PodEventsError as error:
            print(f"benchmarks.pod_groups: {error}", file=sys.stderr)
            return 1
    with tempfile.TemporaryDirectory() as folder:
        _make(Path(folder), options.pods)
        return run("pod_groups", lambda: measure(Path(folder), options.rounds), options.json)


def measure(root: Path, rounds: int) -> dict[str, float]:
    """Return the CPU time of readings: the first one, which finds the groups, and all later ones (medians)."""
    uids = set(pods_in(class_folders(find_kubepods(root))).values())
    groups = PodGroups(root)
    read = len(groups.read(uids))
    first_us = statistics.median(_cpu_us(lambda: PodGroups(root).read(uids)) for _ in range(rounds))
    later_us = statistics.median(_cpu_us(lambda: groups.read(uids)) for _ in range(rounds))
    return {
        "pods": len(uids),
        "pods_read": read,
        "first_reading_us": first_us,
        "reading_us": later_us,
        "pod_us": later_us / max(read, 1),
        "core_percent": 100 * later_us / 1e6 / DEMAND.pods_s,
    }


def _cpu_us(read: Callable[[], object]) -> float:
    # CPU time, because other processes share the CPUs.
    started_ns = time.process_time_ns()
    read()
    return (time.process_time_ns() - started_ns) / 1e3


def _make(root: Path, pods: int) -> None:
    """Make the groups of best-effort pods, as the kubelet's driver systemd names them."""
    kubepods = root / "kubepods.slice"
    kubepods.mkdir()
    (kubepods / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    for _ in range(pods):
        uid = str(uuid.uuid4()).replace("-", "_")
        group = kubepods / "kubepods-besteffort.slice" / f"kubepods-besteffort-pod{uid}.slice"
        group.mkdir(parents=True)
        for name, content in _FILES.items():
            (group / name).write_text(content)


if __name__ == "__main__":
    sys.exit(main())
