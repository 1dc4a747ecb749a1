"""A steady load on CPU and memory, with stress-ng's options as the thesis uses them.

``python -m workloads.stress --cpu 8 --cpu-load 25 --vm 4 --vm-bytes 4G --timeout 60`` takes two cores and 4 GB for a
minute. It needs only the standard library. It does not test hardware: nothing that is computed or stored is checked.

A CPU worker divides time into slices of 40 ms with absolute deadlines. In each slice it is busy until it has used its
share of a core, or until the slice is over; CPU time that it did not get is not made up for later. The share is CPU
time: on a contended machine the demand stays the same. stress-ng measures its busy time by the wall clock, so that its
demand falls while it waits. The slices of the workers begin one after another, so that together they are a steady load.

Memory workers hold ``--vm-bytes`` in all, shared out among them as stress-ng does: anonymous memory, every page written
once and then again and again, slowly, so that it stays resident. Amounts are Kubernetes quantities: 4G is 4 * 10**9
bytes (stress-ng's 4G is 4Gi).

Exit codes: 0 the time is over; 1 a worker could not be started, failed or was killed; 2 wrong usage; 130 and 143 ended
by SIGINT and SIGTERM.
"""

import argparse
import math
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle

from workloads.busy import spend_cpu
from workloads.command_line import decimal, held_signals, whole
from workloads.crew import Crew
from workloads.errors import InvalidQuantity
from workloads.quantity import memory_bytes

MAX_WORKERS = 1024
"""Most workers of each kind; every worker is a process."""

MAX_SECONDS = 1e8
"""Longest time limit, three years; a longer one is a typing error, and without the option there is no limit."""

_DEFAULT_LOAD = 100
_DEFAULT_VM_BYTES = "256Mi"

_SLICE_S = 0.04
_STEP_BYTES = 16 * 2**20
"""Memory touched at once, so little that it causes no burst of CPU time."""
_PASS_S = 10.0
"""Time in which all memory is touched once, unless that takes more than `_TOUCH_SHARE` of a core."""
_TOUCH_SHARE = 0.01
"""Largest share of a core that a memory worker uses to touch its memory again."""


def keep_busy(load: float, offset_s: float, wanted: Callable[[], bool]) -> None:
    """Use a share of a core until no longer wanted.

    Parameters
    ----------
    load : float
        Share of a core, above 0 to 1.
    offset_s : float
        Seconds before the first slice begins.
    wanted : callable
        Called once per slice; the worker ends when it returns False.
    """
    slice_end_s = time.monotonic() + offset_s
    time.sleep(offset_s)
    got_s = time.thread_time()
    while wanted():
        slice_end_s += _SLICE_S
        goal_s = got_s + load * _SLICE_S
        spend_cpu(goal_s, slice_end_s)
        # Counted from the goal, not from the time reached: what this slice used too much, the next one uses less.
        got_s = min(goal_s, time.thread_time())
        time.sleep(max(0.0, slice_end_s - time.monotonic()))


def hold_memory(size: int, report: Callable[[int], None], wanted: Callable[[], bool]) -> None:
    """Hold memory until no longer wanted.

    Parameters
    ----------
    size : int
        Bytes, at least 1.
    report : callable
        Called with the number of bytes held, while the memory is written for the first time.
    wanted : callable
        Called after every step; the worker ends when it returns False. A rest between two steps lasts a second at most,
        unless the memory was swapped out.

    Raises
    ------
    OSError
        If the system refuses the memory.
    """
    held = 0
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for start in cycle(range(0, size, _STEP_BYTES)):
            if not wanted():
                return
            stop = min(start + _STEP_BYTES, size)
            before_s = time.thread_time()
            memory[start : stop : mmap.PAGESIZE] = b"\x01" * len(range(start, stop, mmap.PAGESIZE))
            if held < size:
                held = stop
                report(held)
            else:
                spent_s = time.thread_time() - before_s
                time.sleep(max(min(1.0, _PASS_S * _STEP_BYTES / size), spent_s / _TOUCH_SHARE))


def _bytes(text: str) -> int:
    """Read an amount of memory, written as a Kubernetes quantity."""
    try:
        return memory_bytes(text)
    except InvalidQuantity as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; options that make no sense end the program."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads.stress",
        description="Keep CPU and memory busy, steadily; at the end print seconds, CPU seconds used and bytes held. A "
        "load for testing schedulers, with the options of stress-ng.",
        epilog="Exit codes: 0 the time is over, 1 a worker failed or was killed, 2 wrong usage, 143 ended by SIGTERM. "
        "Example: --cpu 8 --cpu-load 25 --vm 4 --vm-bytes 4Gi --timeout 60",
    )
    workers = whole(range(1, MAX_WORKERS + 1))
    parser.add_argument("--cpu", metavar="N", type=workers, default=0, help="start N processes that use CPU time")
    parser.add_argument(
        "--cpu-load",
        metavar="PERCENT",
        type=whole(range(1, 101)),
        help=f"of a core for each of them (default: {_DEFAULT_LOAD})",
    )
    parser.add_argument("--vm", metavar="N", type=workers, default=0, help="start N processes that hold memory")
    parser.add_argument(
        "--vm-bytes",
        metavar="BYTES",
        type=_bytes,
        help=f"held by all of them together, such as 512Mi or 4G (default: {_DEFAULT_VM_BYTES})",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=decimal(0.001, MAX_SECONDS),
        default=math.inf,
        help="end after this time (default: at SIGTERM or SIGINT)",
    )
    options = parser.parse_args(arguments)
    if not options.cpu and not options.vm:
        parser.error("there is nothing to do: give --cpu N, --vm N or both")
    for option, value, needed in (("cpu-load", options.cpu_load, "cpu"), ("vm-bytes", options.vm_bytes, "vm")):
        if value is not None and not getattr(options, needed):
            parser.error(f"--{option} means nothing without workers: add --{needed} N")
    if options.cpu_load is None:
        options.cpu_load = _DEFAULT_LOAD
    if options.vm_bytes is None:
        options.vm_bytes = _bytes(_DEFAULT_VM_BYTES)
    has = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    if options.vm_bytes > has:
        parser.error(f"--vm-bytes is {options.vm_bytes} bytes, this machine has {has}: ask for less")
    if options.vm_bytes < options.vm * mmap.PAGESIZE:
        least = options.vm * mmap.PAGESIZE
        parser.error(f"--vm-bytes is {options.vm_bytes} bytes, {options.vm} workers hold {least} or more: ask for more")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; by default that of the process.
    """
    options = _options(arguments)
    start_s = time.perf_counter()
    # One number per worker, in shared memory: the bytes held are known even if the workers are killed.
    held = memoryview(mmap.mmap(-1, 8 * max(options.vm, 1))).cast("Q")
    share, rest = divmod(options.vm_bytes, max(options.vm, 1))
    with held_signals(signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        try:
            with Crew() as crew:
                for i in range(options.cpu):
                    crew.start(partial(keep_busy, options.cpu_load / 100, i / options.cpu * _SLICE_S))
                for i in range(options.vm):
                    crew.start(partial(hold_memory, share + (i < rest), partial(held.__setitem__, i)))
                received = crew.wait(options.timeout)
                code = 128 + received if received else 0
        except OSError as error:
            print(f"stress: {error}", file=sys.stderr)
            code = 1
        wall_s = time.perf_counter() - start_s
        of_workers = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = time.process_time() + of_workers.ru_utime + of_workers.ru_stime
        print(f"wall_s={wall_s:.2f} cpu_s={cpu_s:.2f} held_bytes={sum(held)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
