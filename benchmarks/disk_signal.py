"""Measures what the variant `demand` sees of this machine's disks, while more and more programs read from a file.

Programs read the file past the page cache (O_DIRECT), each from a place of its own: pieces of 4 KiB at random places,
or pieces of 128 KiB one after the other. A thread that waits for a read waits for one at a time. So the reads under way
should be the programs' share of time in which they wait; what the disk serves should grow until it is saturated, and
the level should end a little above that. The machine must do nothing else.
"""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import parse, parser, run
from carico.demand.disk import Disk
from carico.demand.settings import DEMAND
from carico.telemetry.counters import DiskUse, disk_use_between
from carico.telemetry.procfs import ProcfsSource

STEP_S = 1 / DEMAND.steps_per_s
SECONDS = 4.0
SETTLE_S = 0.5
FILE_BYTES = 1 << 30
READERS = (1, 2, 4, 8, 16, 32)
PIECES = {"random": 4096, "sequential": 128 * 1024}
"""The kinds of reading, and how much is read at a time."""


def main() -> int:
    """Measure, print and write the figures; or read until killed, as one of the programs."""
    if sys.argv[1:2] == ["--read"]:
        kind, path, number, announce = sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.stdout
        return _read(kind, path, number, announce.fileno())
    arguments = parser(__doc__)
    arguments.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where to make the file (default: %(default)s)"
    )
    arguments.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="how long to measure each setting (default: 4)"
    )
    options = parse(arguments)
    if not options.folder.is_dir():
        arguments.error(f"--folder needs a folder on a disk, {options.folder} is none")
    if not 2 * STEP_S <= options.seconds <= 3600:
        arguments.error(f"--seconds must be in [{2 * STEP_S:g}, 3600], got {options.seconds}")
    return run("disk_signal", lambda: measure(options.folder, options.seconds), options.json)


def measure(folder: Path, seconds: float) -> dict[str, float]:
    """Return the reads under way and the MB per second for every number of readers, and the level afterwards."""
    figures = {}
    with tempfile.NamedTemporaryFile(dir=folder) as file, ProcfsSource() as source:
        for _ in range(FILE_BYTES >> 20):
            file.write(random.randbytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        for kind, piece in PIECES.items():
            disk = Disk(DEMAND.disk_s)
            print(
                f"| {kind} readers | wait | reads under way | MB/s | ms per read | level |\n|---|---|---|---|---|---|"
            )
            for readers in READERS:
                with _reading(kind, Path(file.name), readers) as processes:
                    time.sleep(SETTLE_S)
                    began, cpu_s = time.monotonic(), _cpu_s(processes)
                    uses = _uses(source, seconds)
                    waits = readers - (_cpu_s(processes) - cpu_s) / (time.monotonic() - began)
                for use in uses:
                    disk.observe(use, STEP_S)
                under_way = sum(use.reading for use in uses) / len(uses)
                work_per_s = sum(use.work_per_s for use in uses) / len(uses)
                reads_per_s = work_per_s / (128 + piece / 512)
                figures[f"{kind}:{readers}:under_way"] = under_way
                figures[f"{kind}:{readers}:mb_per_s"] = mb_per_s = reads_per_s * piece / 1e6
                print(
                    f"| {readers} | {waits:.2f} | {under_way:.2f} | {mb_per_s:.0f} "
                    f"| {1000 * under_way / max(reads_per_s, 1e-9):.2f} | {disk.level:.1f} |",
                    flush=True,
                )
            figures[f"{kind}:level"] = disk.level
    return figures


def _uses(source: ProcfsSource, seconds: float) -> list[DiskUse]:
    """Return what was read in every interval."""
    uses, last = [], source.read()
    for _ in range(round(seconds / STEP_S)):
        time.sleep(STEP_S)
        reading = source.read()
        use = disk_use_between(last, reading)
        if use is None:
            raise SystemExit("this machine shows no disks in /proc/diskstats")
        uses.append(use)
        last = reading
    return uses


@contextmanager
def _reading(kind: str, path: Path, readers: int) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """Let programs read; ends them on leaving."""
    command = [sys.executable, "-m", "benchmarks.disk_signal", "--read", kind, str(path)]
    processes = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) for number in range(readers)]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.read(1)
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def _read(kind: str, path: Path, number: int, announce: int) -> int:
    """Read for ever, past the page cache."""
    piece, buffer, choose = PIECES[kind], mmap.mmap(-1, PIECES[kind]), random.Random(number)
    pieces = FILE_BYTES // piece
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    at = choose.randrange(pieces)
    os.write(announce, b".")
    while True:
        os.preadv(descriptor, [buffer], at * piece)
        at = choose.randrange(pieces) if kind == "random" else (at + 1) % pieces


def _cpu_s(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """Return how long processes have run or waited for a CPU."""
    ran = [Path(f"/proc/{process.pid}/schedstat").read_text(encoding="ascii").split() for process in processes]
    return sum(int(run) + int(waited) for run, waited, _ in ran) / 1e9


if __name__ == "__main__":
    sys.exit(main())
