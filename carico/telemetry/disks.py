"""What a machine has read from its disks: `/proc/diskstats` (proc_diskstats(5)).

Disks are counted once: neither their partitions nor what is stacked on them (LVM, RAID, encryption, loop devices).
Network disks that the machine sees as its own are disks, network filesystems are not.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from carico.errors import TelemetryFileMissing
from carico.telemetry.counters import SECTORS_PER_READ
from carico.telemetry.files import KeptOpen

_ALL_DISKS_BYTES = 2**20
"""Enough for thousands of disks, about 100 bytes each."""
_DISK = re.compile(rb"^ *\d+ +\d+ ((?:[hsv]|xv)d[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+) (.*)$", re.MULTILINE)
"""A line of a whole disk; "vda1" and "nvme0n1p1" are partitions."""
_READS, _MERGED, _SECTORS, _MS = range(4)


class DiskCounters(NamedTuple):
    """What was read since boot, see `carico.telemetry.counters.Counters`."""

    reading_ms: int
    read_work: int


NO_DISKS = DiskCounters(0, 0)


class DiskStats(KeptOpen):
    """The file with the counters of all disks."""

    def counters(self) -> DiskCounters:
        """Return the present counters of all disks together.

        Raises
        ------
        TelemetryFileMissing
            If the file vanished or can no longer be read.
        TelemetryMalformed
            If it does not hold what the kernel writes.
        """
        work = milliseconds = 0
        for name, rest in _DISK.findall(self.read(_ALL_DISKS_BYTES)):
            fields = rest.split()[: _MS + 1]
            if len(fields) <= _MS or not all(map(bytes.isdigit, fields)):
                raise self.malformed(f"at least {_MS + 1} numbers after a disk's name", name + b" " + rest)
            numbers = [int(field) for field in fields]
            work += SECTORS_PER_READ * numbers[_READS] + numbers[_SECTORS]
            milliseconds += numbers[_MS]
        return DiskCounters(milliseconds, work)


def disk_stats_if_any(path: Path, kind: str, opened: ExitStack) -> DiskStats | None:
    """Return the file, which `opened` will close, or None where it cannot be read: as in some sandboxes."""
    with ExitStack() as trial:
        try:
            file = trial.enter_context(DiskStats(path, kind))
            file.read()
        except TelemetryFileMissing:
            return None
        opened.push(trial.pop_all())
        return file
