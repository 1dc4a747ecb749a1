"""The nodes' counters as the kernel shows them: cumulative, and in the kernel's own units."""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray
from carico.telemetry.counters import Counters
from testbed.simulation.nodes.disks import Disks
from testbed.simulation.nodes.memory import NodeMemory

JIFFIES_PER_S = 100
CACHE_SHARE = 0.2
"""Share of an idle node's memory that the page cache holds; the cache gives way to pods."""


class KernelCounters:
    """CPU time and pressure of all nodes, summed up since they booted.

    Parameters
    ----------
    cores : ndarray, shape (nodes,)
    boot_s : float
        The time from which the counters count.
    """

    def __init__(self, cores: FloatArray, boot_s: float) -> None:
        self._cores = cores
        self._boot_s = boot_s
        self.busy_s: FloatArray = np.zeros(cores.size)
        self.pressure_s: FloatArray = np.zeros(cores.size)
        self.stolen_s: FloatArray = np.zeros(cores.size)
        """The part of `busy_s` in which neighbours on the host had the CPU."""

    def read(self, now: float, memory: NodeMemory, disks: Disks | None = None) -> Counters:
        """Return what /proc would show on every node at `now`, seconds; `disks` are None if no node has one."""
        total_s = self._cores * (now - self._boot_s)
        used = memory.shown
        cached = np.minimum(CACHE_SHARE * memory.total, memory.total - used)
        return Counters(
            at_s=now,
            cpu_total=np.floor(total_s * JIFFIES_PER_S + 0.5),
            cpu_idle=np.floor((total_s - self.busy_s) * JIFFIES_PER_S + 0.5),
            cpu_pressure_us=np.floor(self.pressure_s * 1e6),
            memory_total=memory.total.copy(),
            memory_free=memory.total - used - cached,
            memory_buffers=np.zeros(memory.total.size),
            memory_cached=cached,
            disk_reading_ms=0 if disks is None else np.floor(disks.reading_s * 1000),
            disk_read_work=0 if disks is None else np.floor(disks.read_work),
            cpu_stolen=np.floor(self.stolen_s * JIFFIES_PER_S + 0.5),
        )
