"""Worker processes that end with their parent, however it ends; the parent notices if one of them ends earlier."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: sets the signal that a process gets when its parent dies."""

_LONGEST_WAIT_S = 3600.0
"""Longest wait in one call of the kernel, which accepts no infinite wait."""


class Crew:
    """Processes that work until the end of the context; a context manager.

    It is for a single-threaded process that holds SIGINT, SIGTERM and SIGCHLD back (see
    `workloads.command_line.held_signals`). Workers hold these signals back too: only SIGKILL ends them, from `__exit__`
    or, if their parent is killed, from the kernel.
    """

    def __init__(self) -> None:
        self._workers: set[int] = set()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            os.kill(worker, signal.SIGKILL)
        for worker in self._workers:
            os.waitpid(worker, 0)

    def start(self, work: Callable[[Callable[[], bool]], None]) -> None:
        """Start a process.

        Parameters
        ----------
        work : callable
            Runs in the new process. Its argument is a function that returns whether the parent is alive; `work` must
            call it at least once a second, and return if the parent is dead (not every kernel ends orphans).

        Raises
        ------
        OSError
            If no process can be started.
        """
        parent = os.getpid()
        worker = os.fork()
        if worker:
            self._workers.add(worker)
            return
        code = 1
        try:
            _die_with_parent()
            work(lambda: os.getppid() == parent)
            code = 0
        except Exception as error:
            print(f"a worker failed: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def wait(self, timeout_s: float) -> int:
        """Wait until the time is over, or for SIGINT or SIGTERM.

        Parameters
        ----------
        timeout_s : float
            Seconds, possibly infinite.

        Returns
        -------
        int
            The signal's number; 0 if the time is over.

        Raises
        ------
        ChildProcessError
            If a worker ends by itself or is killed from outside.
        """
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            received = signal.sigtimedwait(
                (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD), min(left_s, _LONGEST_WAIT_S)
            )
            if received and received.si_signo != signal.SIGCHLD:
                return received.si_signo
            self._check()
        return 0

    def _check(self) -> None:
        """Raise if a worker has ended; a stopped worker, which also sends SIGCHLD, has not."""
        for worker in self._workers:
            ended, status = os.waitpid(worker, os.WNOHANG)
            if ended:
                self._workers.remove(worker)
                code = os.waitstatus_to_exitcode(status)
                how = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
                hint = "; the machine or the container may be out of memory" if code == -signal.SIGKILL else ""
                raise ChildProcessError(f"a worker ended before its time ({how}){hint}")


def _die_with_parent() -> None:
    """Ask the kernel to end this process with its parent; where it cannot, the worker checks for itself."""
    with suppress(OSError, AttributeError):  # no such library, no such function
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
