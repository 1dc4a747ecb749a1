"""Processes of this machine that run trials; none outlives the process that made them."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from testbed.errors import TestbedError

_PR_SET_PDEATHSIG = 1


@contextmanager
def process_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Give an executor with that many processes.

    Raises
    ------
    TestbedError
        If a process ends before its run.
    """
    others = set(multiprocessing.active_children())
    # Spawned, not forked: the parent may have threads, and a worker must not depend on the parent's state.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_die_quietly)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise TestbedError("a process ended before its run, perhaps for lack of memory: use fewer processes") from error
    except BaseException:
        # The results of passes that still run are not needed, and a simulation cannot be interrupted.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    pool.shutdown()


def _die_quietly() -> None:
    """Die without a traceback at Ctrl-C, which reaches the whole process group, and when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
