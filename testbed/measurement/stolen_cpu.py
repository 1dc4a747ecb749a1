"""CPU time that this machine's hypervisor gave to other guests, which distorts measurements on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.results.schema import STOLEN, DataItem, Repetition

METRIC = "machine_cpu_stolen"
MENTIONED_FROM = 0.05
"""Tables mention stolen CPU time from this share of the machine's CPU time on."""
RETRIED_FROM = 0.1
"""A repetition is run again from this share on, if another attempt is allowed."""
_DISCARDED = "discarded_"
_STEAL = 7
"""Index of the column for stolen time, after user, nice, system, idle, iowait, irq and softirq (proc(5))."""


class StolenCpu:
    """Measures from its construction on.

    Parameters
    ----------
    stat : Path
        The kernel's counters.
    """

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._began = self._counters()

    def items(self) -> list[DataItem]:
        """Return a data item `machine_cpu_stolen`, a share of the CPU time so far; none if it is unknown."""
        now = self._counters()
        if self._began is None or now is None:
            return []
        stolen, whole = (after - before for before, after in zip(self._began, now, strict=True))
        return [DataItem({"value": max(stolen, 0) / whole}, "share", {"metric": METRIC})] if whole > 0 else []

    def _counters(self) -> tuple[int, int] | None:
        """Stolen and total CPU time since the machine booted."""
        try:
            first, *values = self._stat.read_text(encoding="ascii").split("\n", 1)[0].split()
            modes = [int(value) for value in values[: _STEAL + 1]]
        except (OSError, ValueError):
            return None
        return (modes[_STEAL], sum(modes)) if first == "cpu" and len(modes) > _STEAL else None


def discarded(item: DataItem, attempt: int) -> DataItem:
    """Return a data item of a discarded attempt with the labels that it has in the results."""
    metric = _DISCARDED + item.labels.get("metric", "")
    return DataItem(item.data, item.unit, item.labels | {"metric": metric, "attempt": str(attempt)})


def discarded_attempts(repetitions: Sequence[Repetition]) -> dict[str, int]:
    """Return the number of discarded attempts by scheduler, for schedulers that have any."""
    found: dict[str, int] = {}
    for one in repetitions:
        if count := sum(item.labels.get("metric") == _DISCARDED + METRIC for item in one.data_items):
            found[one.scheduler] = found.get(one.scheduler, 0) + count
    return found


def stolen_from_nodes(repetitions: Sequence[Repetition]) -> list[float]:
    """Return the share of the nodes' CPU time stolen during each repetition that measured it."""
    return [one.data["mean"] for run in repetitions for one in run.data_items if one.labels == {"metric": STOLEN}]


def stolen_shares(repetitions: Sequence[Repetition]) -> list[float]:
    """Return the share of CPU time stolen during each repetition that measured it."""
    return [item.data["value"] for one in repetitions for item in one.data_items if item.labels.get("metric") == METRIC]
