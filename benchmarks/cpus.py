"""Measures how many CPUs each program of a cluster uses; here all programs share this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

import psutil

PARTS = {
    "kube-scheduler": "kube_scheduler",
    "kube-apiserver": "control_plane",
    "kube-controller-manager": "control_plane",
    "etcd": "control_plane",
    "kwok-controller": "nodes",
    "extender": "extender",
    "testbed.real.kwok.synthetic_reports": "reports",
}
"""The part that a process belongs to, by the program's name or by one of its arguments."""


@contextmanager
def cpus_used() -> Iterator[dict[str, float]]:
    """Yield a dictionary that is filled on exit with the CPUs used by each part, and by all processes (`machine`)."""
    used: dict[str, float] = dict.fromkeys(("machine", *PARTS.values()), 0.0)
    before, began = _cpu_s(), perf_counter()
    yield used
    after, seconds = _cpu_s(), perf_counter() - began
    for (part, pid), cpu_s in after.items():
        used[part] += (cpu_s - before.get((part, pid), 0.0)) / seconds


def _cpu_s() -> dict[tuple[str, int], float]:
    """Return CPU time so far, seconds, by part and process."""
    whole = psutil.cpu_times()
    found = {("machine", 0): sum(whole) - whole.idle - whole.iowait - whole.steal - whole.guest - whole.guest_nice}
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # the process has ended meanwhile
            words = [Path(word).name for word in process.cmdline()]
            part = next((PARTS[word] for word in words if word in PARTS), None)
            if part is not None:
                times = process.cpu_times()
                found[part, process.pid] = times.user + times.system
    return found
