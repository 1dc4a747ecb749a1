"""Locks between processes, as files. The kernel ends a lock with its process, so a crash leaves nothing locked.

A file system that has no locks (some network ones) grants them all: work may be done twice there, none is lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.errors import ResultsError


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock of a file, which is created if need be, and give its descriptor; waits for whoever holds it.

    Raises
    ------
    ResultsError
        If it cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise ResultsError(f"cannot write to {path.parent}: {error.strerror}; has the folder been removed?") from error
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def hold_open(path: Path) -> int:
    """Say, until the descriptor that is returned is closed, that a process is at work here; several may say so."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def is_held_open(path: Path) -> bool:
    """Whether some process says so."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
