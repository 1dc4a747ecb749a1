"""CPU time spent on purpose: by a worker of `workloads.stress`, or for a request to `workloads.web`."""

from __future__ import annotations

import math
import time

_CRUMB = range(250)
"""Summed up between two readings of the clocks: this takes some microseconds, so that most of the time is user time."""


def spend_cpu(until_cpu_s: float, until_s: float = math.inf) -> None:
    """Keep the calling thread busy.

    Parameters
    ----------
    until_cpu_s : float
        Return when the thread's own CPU time (``time.thread_time``) has reached this value, seconds.
    until_s : float
        Return at this value of ``time.monotonic``, seconds, at the latest.
    """
    while time.thread_time() < until_cpu_s and time.monotonic() < until_s:
        sum(_CRUMB)
