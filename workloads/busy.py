"""CPU time spent on purpose: what a worker of `workloads.stress` and a request of `workloads.web` are made of."""

from __future__ import annotations

import math
import time

_CRUMB = range(250)
"""Summed up between two looks at the clocks: a few microseconds, so that most of the time is user time."""


def spend_cpu(until_cpu_s: float, until_s: float = math.inf) -> None:
    """Keep the calling thread busy.

    Parameters
    ----------
    until_cpu_s : float
        Return when the thread's own CPU time (``time.thread_time``) has come so far, in seconds.
    until_s : float
        Return no later than at this reading of ``time.monotonic``, in seconds, however little CPU time there was.
    """
    while time.thread_time() < until_cpu_s and time.monotonic() < until_s:
        sum(_CRUMB)
