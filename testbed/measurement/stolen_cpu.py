"""CPU time of this machine that its hypervisor gave to other guests: clusters on it measure them, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.results.schema import DataItem, Repetition

METRIC = "machine_cpu_stolen"
TOLD_FROM = 0.05
"""From this share of a machine's CPU time on, tables tell what was stolen."""
RUN_AGAIN_FROM = 0.1
"""From this share on, a repetition is run again, if more attempts are allowed than one."""
_DISCARDED = "discarded_"
_STEAL = 7
"""Behind user, nice, system, idle, iowait, irq and softirq (proc(5))."""


class StolenCpu:
    """Measures from when it is made.

    Parameters
    ----------
    stat : Path
        The kernel's counters.
    """

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._began = self._counters()

    def items(self) -> list[DataItem]:
        """Return a data item `machine_cpu_stolen`, a share of the CPU time so far; none where no kernel tells it."""
        now = self._counters()
        if self._began is None or now is None:
            return []
        stolen, whole = (after - before for before, after in zip(self._began, now, strict=True))
        return [DataItem({"value": max(stolen, 0) / whole}, "share", {"metric": METRIC})] if whole > 0 else []

    def _counters(self) -> tuple[int, int] | None:
        """What was stolen since the machine began, and all of its CPU time."""
        try:
            first, *values = self._stat.read_text(encoding="ascii").split("\n", 1)[0].split()
            modes = [int(value) for value in values[: _STEAL + 1]]
        except (OSError, ValueError):
            return None
        return (modes[_STEAL], sum(modes)) if first == "cpu" and len(modes) > _STEAL else None


def discarded(item: DataItem, attempt: int) -> DataItem:
    """Return a data item of an attempt that was discarded, as it stays in the results."""
    metric = _DISCARDED + item.labels.get("metric", "")
    return DataItem(item.data, item.unit, item.labels | {"metric": metric, "attempt": str(attempt)})


def discarded_attempts(repetitions: Sequence[Repetition]) -> dict[str, int]:
    """Return by scheduler how many attempts at these were discarded; only where any was."""
    found: dict[str, int] = {}
    for one in repetitions:
        if count := sum(item.labels.get("metric") == _DISCARDED + METRIC for item in one.data_items):
            found[one.scheduler] = found.get(one.scheduler, 0) + count
    return found


def stolen_shares(repetitions: Sequence[Repetition]) -> list[float]:
    """Return what share of the machine's CPU time was stolen while they ran; none of those that do not know."""
    return [item.data["value"] for one in repetitions for item in one.data_items if item.labels.get("metric") == METRIC]
