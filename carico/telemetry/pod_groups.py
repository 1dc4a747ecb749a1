"""What single pods use, from the control groups (v2) that the kubelet makes for them.

A reading takes four files a pod: `cpu.stat`, `cpu.pressure`, `memory.current` and `memory.stat`. Memory is what
`carico.telemetry.cgroup` takes it for: what the group uses without its page cache.

Files are opened for each reading: a node may have more pods than descriptors. Where a pod's folder is, is remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Set
from contextlib import suppress
from pathlib import Path

from carico.clock import Clock, SystemClock
from carico.errors import PodEventsError, TelemetryError
from carico.telemetry.counters import PodCounters
from carico.telemetry.files import KeptOpen, PressureFile
from carico.telemetry.kubepods import class_folders, find_kubepods, pods_in

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
            kernel writes, or its kernel offers no pressure. Without groups of v2 there are no pods at all; the log
            says why, once.
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
            kubepods = find_kubepods(self._root)
            if not _is_v2(kubepods):
                self._say_why(
                    f"{kubepods} has no controller memory of cgroup v2: boot the node with the unified hierarchy, "
                    f"systemd.unified_cgroup_hierarchy=1"
                )
                return {}
            return {uid: _Group(folder) for folder, uid in pods_in(class_folders(kubepods)).items() if uid in uids}
        except PodEventsError as error:
            self._say_why(str(error))
            return {}

    def _say_why(self, reason: str) -> None:
        if not self._has_said_why:
            _logger.info("what single pods use is not known: %s", reason)
            self._has_said_why = True


class _Group:
    """The files of a pod's group."""

    def __init__(self, folder: Path) -> None:
        self._cpu_stat, self._pressure, self._current, self._memory_stat = (
            folder / name for name in ("cpu.stat", "cpu.pressure", "memory.current", "memory.stat")
        )

    def read(self, clock: Clock) -> PodCounters:
        """Return the present counters, or raise a TelemetryError."""
        # One after the other: CPU time and waiting belong to the time of the reading, memory changes slowly.
        at_s = clock.now()
        with KeptOpen(self._cpu_stat, _KIND) as file:
            used_us = _sane(file, file.number_in(file.peek(), b"usage_usec "))
        with PressureFile(self._pressure, _KIND) as file:
            waited_us = _sane(file, file.some_total_us_in(file.peek()))
        with KeptOpen(self._current, _KIND) as file:
            memory = _sane(file, file.number_in(file.peek()))
        with KeptOpen(self._memory_stat, _KIND) as file:
            cached = _sane(file, file.number_in(file.peek(), b"file "))
        # The kernel counts memory and page cache at different times.
        return PodCounters(at_s, used_us / 1e6, waited_us / 1e6, max(memory - cached, 0) / 2**30)


def _is_v2(kubepods: Path) -> bool:
    """Whether the kubelet's group is of v2 and counts memory, which v2 beside v1 (hybrid) does not."""
    with suppress(TelemetryError), KeptOpen(kubepods / "cgroup.controllers", _KIND) as file:
        return b"memory" in file.peek().split()
    return False


def _sane(file: KeptOpen, number: int) -> int:
    if number > _MOST:
        raise file.malformed(f"numbers of at most {_MOST}", str(number).encode())
    return number
