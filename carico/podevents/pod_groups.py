"""What pods use, from their own control groups: CPU time, waiting for CPUs, and memory, of each pod by itself.

Control groups must be those of cgroup v2. With v1 every controller has a tree of its own, and no pressure, so nothing
is read. What cannot be read is left out, because whoever asks can do without: a pod may end at any moment, and a kernel
may be built without pressure.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from carico.clock import Clock, SystemClock
from carico.errors import CaricoError, TelemetryError
from carico.podevents.cgroups import find_kubepods, pod_folders
from carico.telemetry.counters import PodCounters
from carico.telemetry.files import KeptOpen, PressureFile

_log = logging.getLogger(__name__)

_KIND = "cgroup hierarchy"
_GIB = 2.0**30


class PodGroups:
    """Reads the control groups of pods.

    Parameters
    ----------
    root : path
        Where control groups are mounted, or a folder below; see `carico.podevents.cgroups`.
    clock : Clock, optional
        Dates the readings; the machine's monotonic clock by default.
    """

    def __init__(self, root: str | Path = "/sys/fs/cgroup", clock: Clock | None = None) -> None:
        self._root = Path(root)
        self._clock = clock or SystemClock()
        self._folders: dict[str, Path] = {}
        """The folders of the pods that were asked for last, by UID."""
        self._told = ""

    def read(self, uids: Collection[str]) -> dict[str, PodCounters]:
        """Return the counters of those of the pods with these UIDs that can be read."""
        folders = {uid: self._folders[uid] for uid in uids if uid in self._folders}
        if len(folders) < len(uids):
            try:
                found = pod_folders(find_kubepods(self._root))
            except CaricoError as error:
                self._tell(f"{error}")
                return {}
            folders = {uid: found[uid] for uid in uids if uid in found}
        self._folders = folders
        counters, problem = {}, ""
        for uid, folder in folders.items():
            try:
                counters[uid] = self._counters(folder)
            except TelemetryError as error:
                problem = f"{error}"
        self._folders = {uid: folder for uid, folder in folders.items() if uid in counters}
        if problem and not counters:
            self._tell(problem)
        return counters

    def _counters(self, folder: Path) -> PodCounters:
        with (
            KeptOpen(folder / "cpu.stat", _KIND) as cpu,
            PressureFile(folder / "cpu.pressure", _KIND) as pressure,
            KeptOpen(folder / "memory.current", _KIND) as memory,
            KeptOpen(folder / "memory.stat", _KIND) as parts,
        ):
            held = memory.number_in(memory.peek()) - parts.number_in(parts.peek(), b"file ")
            return PodCounters(
                self._clock.now(),
                cpu.number_in(cpu.peek(), b"usage_usec ") / 1e6,
                pressure.some_total_us_in(pressure.peek()) / 1e6,
                max(held, 0) / _GIB,
            )

    def _tell(self, problem: str) -> None:
        """Say that no pod can be read, once for every reason."""
        if problem != self._told:
            self._told = problem
            _log.info("pods are not read one by one: %s", problem)
