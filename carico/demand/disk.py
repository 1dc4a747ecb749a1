"""How many reads may be under way on a node's disks at a time before more of them are of no use. Pure.

Nobody tells how fast a disk is. A disk that is busy all the time may serve one read at a time, or dozens. That reads
take longer does not say much either: many disks read more in all the more they are asked to. So a node notes how much
its disks read per second with up to one read under way, up to two, up to four, and so on. They are saturated at a
number if more reads at a time were tried and brought no more: a disk with an arm reads less as soon as there are two,
and others read as much with four times as many.

What was never tried is tried: then twice as many reads may be under way as before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from carico.errors import InvalidState
from carico.saved import checked_array
from carico.telemetry.counters import SECTORS_PER_READ, DiskUse

_LEAST_WORK = 32.0 * SECTORS_PER_READ
_LEAST_READING = 0.001
"""Work and reads under way below which an observation says too little: work of 10 to 32 reads."""
_MOST_WORK_PER_S = 1e9
"""More than any machine reads: half a terabyte per second."""
_MOST_STEPS = 18
"""A quarter of a million reads at a time: more than any disk is asked for, and twice as many can be reported."""
_AVERAGE_S = 10.0
"""Time over which observations of about the same number of reads are averaged, seconds."""
_LESS, _MORE = 0.7, 1.25
"""Reads saturate a disk if twice as many bring less than `_LESS` times as much per second, or if four times as many and
more bring less than `_MORE` times as much."""
_FURTHER = 2.0
"""How many times as many reads may be under way as were tried."""
_MARGIN = 1.25
"""How many times as many reads may be under way as saturate the disk, which would otherwise wait for the next pod."""


@dataclass
class _Seen:
    """What was observed with about the same number of reads under way."""

    reading: float
    work_per_s: float
    age_s: float = 0.0


class Disk:
    """What is known about the disks of a node, all taken together.

    Parameters
    ----------
    forget_s : float
        After how many seconds it is forgotten what so many reads at a time brought: then they are tried again.

    Examples
    --------
    A disk that reads half as much for two programs as for one:

    >>> disk = Disk(forget_s=900.0)
    >>> disk.observe(DiskUse(reading=0.9, work_per_s=90_000.0), elapsed_s=1.0)
    >>> disk.level
    2.0
    >>> disk.observe(DiskUse(reading=1.9, work_per_s=50_000.0), elapsed_s=1.0)
    >>> disk.level
    1.25
    """

    def __init__(self, forget_s: float) -> None:
        self._forget_s = forget_s
        self._seen: dict[int, _Seen] = {}
        """What was observed with at most 2^k reads under way, and more than half as many, by k."""

    @property
    def level(self) -> float:
        """How many reads may be under way."""
        for step in sorted(self._seen):
            if self._saturates(step):
                return float(_MARGIN * 2**step)
        tried = max((seen.reading for seen in self._seen.values()), default=0.0)
        # How much it reads with one read at a time shows whether more are worse: ever more of them only after that.
        return max((_FURTHER if 0 in self._seen else _MARGIN) * tried, 2.0)

    def observe(self, use: DiskUse, elapsed_s: float) -> None:
        """Take in what was read in the last `elapsed_s` seconds."""
        for seen in self._seen.values():
            seen.age_s += elapsed_s
        reading, work_per_s = min(use.reading, 2.0**_MOST_STEPS), use.work_per_s
        if work_per_s * elapsed_s < _LEAST_WORK or reading < _LEAST_READING:
            return
        step = max(math.ceil(math.log2(reading)), 0)
        if step == 0:
            work_per_s /= reading  # as if one read had been under way all the time
        work_per_s = min(work_per_s, _MOST_WORK_PER_S)
        seen = self._seen.setdefault(step, _Seen(reading, work_per_s))
        weight = 1 - math.exp(-elapsed_s / _AVERAGE_S)
        seen.reading += weight * (reading - seen.reading)
        seen.work_per_s += weight * (work_per_s - seen.work_per_s)
        seen.age_s = 0.0
        self._seen = {step: seen for step, seen in self._seen.items() if seen.age_s < self._forget_s or step == 0}

    def save(self) -> dict[str, list[float]]:
        """Return everything that was learned, as JSON values."""
        return {str(step): list(astuple(seen)) for step, seen in self._seen.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `save` returned.

        Raises
        ------
        InvalidState
            If the state is damaged; nothing has changed then.
        """
        if not state.keys() <= set(map(str, range(_MOST_STEPS + 1))):
            raise InvalidState(f"numbers of reads up to 2^{_MOST_STEPS} are known, got {list(state)[:30]}: delete it")
        found = {int(step): checked_array(state, step, (3,)).tolist() for step in state}
        for step, (reading, work_per_s, age_s) in found.items():
            if not (0 <= reading <= 2**step and 0 <= work_per_s <= _MOST_WORK_PER_S and age_s >= 0):
                raise InvalidState(
                    f"reads under way must be in [0, {2**step}], their work per second in [0, {_MOST_WORK_PER_S:g}], "
                    f"their age must not be negative, got {found[step]}: the saved state is damaged; delete it"
                )
        self._seen = {step: _Seen(*numbers) for step, numbers in found.items()}

    def _saturates(self, step: int) -> bool:
        """Whether more reads at a time than those of a step were tried, and brought no more."""
        here = self._seen[step].work_per_s
        more = {other - step: seen.work_per_s for other, seen in self._seen.items() if other > step}
        if not more or max(more.values()) >= _MORE * here:
            return False
        return max(more) > 1 or more[1] < _LESS * here
