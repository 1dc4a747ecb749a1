"""What single pods use, from the control groups that the kubelet makes for them.

A reading takes four files a pod. On cgroup v2, they are in one folder. On the hybrid hierarchy, CPU time and pressure
are in the tree `unified`, and memory is in that of the controller `memory`. Without any tree of v2 there is no
pressure, so that v1 alone is not read. Memory is what `carico.telemetry.cgroup` takes it for: what the group uses
without its page cache.

Files are opened for each reading: a node may have more pods than descriptors. Where a pod's folder is, is remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from carico.clock import Clock, SystemClock
from carico.errors import PodEventsError, TelemetryError
from carico.telemetry.counters import PodCounters
from carico.telemetry.files import KeptOpen, PressureFile
from carico.telemetry.kubepods import class_folders, find_kubepods, pods_in, subfolders

_KIND = "cgroup hierarchy"
_MOST = 2**53
"""No machine has run for 285 years of CPU time or has 8 PiB of memory, and floats are exact up to here."""
_logger = logging.getLogger(__name__)


class PodGroups:
    """The control groups of a node's pods; for one thread.

    Parameters
    ----------
    root : path
        Where control groups are mounted, or a folder below; see `carico.telemetry.kubepods.find_kubepods`.
    clock : Clock, optional
        Dates the readings; the machine's monotonic clock by default.
    """

    def __init__(self, root: str | Path = "/sys/fs/cgroup", clock: Clock | None = None) -> None:
        self._root = Path(root)
        self._clock = clock or SystemClock()
        self._groups: dict[str, _Group] = {}
        self._has_said_why = False

    def read(self, uids: Collection[str]) -> dict[str, PodCounters]:
        """Return the present counters of these pods.

        Parameters
        ----------
        uids : collection of str
            As the Kubernetes API writes them. Pods that are not asked for are forgotten.

        Returns
        -------
        dict
            By UID. A pod is left out if it has no group (any more), its files cannot be read or do not hold what the
            kernel writes, or its kernel offers no pressure. With control groups of v1 alone there are no pods at all;
            the log says why, once.
        """
        wanted = set(uids)
        self._groups = {uid: group for uid, group in self._groups.items() if uid in wanted}
        if unknown := wanted - self._groups.keys():
            self._groups |= self._found(unknown)
        counters = {}
        for uid, group in list(self._groups.items()):
            try:
                counters[uid] = group.read(self._clock)
            except TelemetryError:
                del self._groups[uid]  # its folder may be elsewhere next time
        return counters

    def _found(self, uids: Set[str]) -> dict[str, _Group]:
        """The groups of those pods that have one."""
        try:
            # On v2, groups may have these names, too.
            is_hybrid = {"unified", "memory"} <= set(subfolders(self._root)) and not _counts_memory(self._root)
            tree = self._root / "unified" if is_hybrid else self._root
            kubepods = find_kubepods(tree)
            folders = {folder: uid for folder, uid in pods_in(class_folders(kubepods)).items() if uid in uids}
        except PodEventsError as error:
            self._say_why(str(error))
            return {}
        if is_hybrid:
            memory = self._root / "memory"
            return {uid: _Group(folder, memory / folder.relative_to(tree), _V1) for folder, uid in folders.items()}
        if _counts_memory(kubepods):
            return {uid: _Group(folder, folder, _V2) for folder, uid in folders.items()}
        self._say_why(
            f"{kubepods} has no controller memory of cgroup v2, and {self._root} is no hybrid hierarchy (unified and "
            f"memory): boot the node with the unified hierarchy, systemd.unified_cgroup_hierarchy=1"
        )
        return {}

    def _say_why(self, reason: str) -> None:
        if not self._has_said_why:
            _logger.info("what single pods use is not known: %s", reason)
            self._has_said_why = True


class _Memory(NamedTuple):
    """Where a hierarchy tells a group's memory."""

    usage_file: str
    cache_label: bytes
    """In memory.stat."""


_V2 = _Memory("memory.current", b"file ")
_V1 = _Memory("memory.usage_in_bytes", b"total_cache ")
"""The total includes the groups of the pod's containers."""


class _Group:
    """The files of a pod's group."""

    def __init__(self, folder: Path, memory_folder: Path, memory: _Memory) -> None:
        self._cpu_stat, self._pressure = folder / "cpu.stat", folder / "cpu.pressure"
        self._usage, self._memory_stat = memory_folder / memory.usage_file, memory_folder / "memory.stat"
        self._cache_label = memory.cache_label

    def read(self, clock: Clock) -> PodCounters:
        """Return the present counters, or raise a TelemetryError."""
        # One after the other: CPU time and waiting belong to the time of the reading, memory changes slowly.
        at_s = clock.now()
        with KeptOpen(self._cpu_stat, _KIND) as file:
            used_us = _sane(file, file.number_in(file.peek(), b"usage_usec "))
        with PressureFile(self._pressure, _KIND) as file:
            waited_us = _sane(file, file.some_total_us_in(file.peek()))
        with KeptOpen(self._usage, _KIND) as file:
            memory = _sane(file, file.number_in(file.peek()))
        with KeptOpen(self._memory_stat, _KIND) as file:
            cached = _sane(file, file.number_in(file.peek(), self._cache_label))
        # The kernel counts memory and page cache at different times.
        return PodCounters(at_s, used_us / 1e6, waited_us / 1e6, max(memory - cached, 0) / 2**30)


def _counts_memory(group: Path) -> bool:
    """Whether a group is of v2 and counts memory, which a v2 tree mounted beside v1 does not."""
    with suppress(TelemetryError), KeptOpen(group / "cgroup.controllers", _KIND) as file:
        return b"memory" in file.peek().split()
    return False


def _sane(file: KeptOpen, number: int) -> int:
    if number > _MOST:
        raise file.malformed(f"numbers of at most {_MOST}", str(number).encode())
    return number
