"""How many more of inotify's instances the user may have: a kernel limit that nodes on one machine share."""

from __future__ import annotations

import ctypes
import os


def free_instances(at_most: int) -> int:
    """Return how many instances can be opened now, by opening them for a moment.

    Parameters
    ----------
    at_most : int
        No more are tried.

    Examples
    --------
    >>> free_instances(0)
    0
    """
    opened: list[int] = []
    libc = ctypes.CDLL(None)
    try:
        while len(opened) < at_most:
            descriptor = libc.inotify_init1(os.O_CLOEXEC)
            if descriptor < 0:
                break
            opened.append(descriptor)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return len(opened)
