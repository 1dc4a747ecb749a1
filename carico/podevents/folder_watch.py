"""Waiting until a folder appears or vanishes in one of several others: Linux's inotify, or looking again and again.

A wake-up only: whoever is woken lists the folders. Events are not looked at, so none can be misread or lost.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1
_IN_CREATE, _IN_DELETE, _IN_MOVED, _IN_ONLYDIR = 0x100, 0x200, 0x0C0, 0x0100_0000
_MASK = _IN_CREATE | _IN_DELETE | _IN_MOVED | _IN_ONLYDIR
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # the values of IN_NONBLOCK and IN_CLOEXEC
_BYTES_READ = 65536


class FolderWatch(Protocol):
    """Says when it is worth looking."""

    def add(self, folders: Iterable[Path]) -> list[Path]:
        """Watch these folders, too, and return those known to be gone; one that is watched already stays so."""
        ...

    def wait(self, at_most_s: float) -> None:
        """Return when something may have happened since the last call, or after so many seconds."""
        ...

    def wake(self) -> None:
        """End every wait, now and to come; may be called from any thread."""
        ...

    def close(self) -> None:
        """Watch no more; closing twice is fine."""
        ...


def folder_watch() -> FolderWatch:
    """Return inotify's watch; where the kernel gives none, one that looks ten times a second."""
    try:
        return InotifyWatch()
    except OSError as error:
        _LOG.warning("no inotify (%s; see fs.inotify.max_user_instances): looking ten times a second", error.strerror)
        return PollingWatch()


class InotifyWatch:
    """Woken by the kernel.

    Raises
    ------
    OSError
        If there are too many in use, or the kernel has none.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _checked(self._libc.inotify_init1(_FLAGS))
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._warned = False
        self._poll = select.poll()
        for descriptor in (self._descriptor, self._wake):
            self._poll.register(descriptor, select.POLLIN)

    def add(self, folders: Iterable[Path]) -> list[Path]:
        """See `FolderWatch`. A folder that cannot be watched is seen by whoever looks anyway now and then."""
        gone = []
        for folder in folders:
            try:
                _checked(self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MASK))
            except FileNotFoundError:
                gone.append(folder)
            except OSError as error:
                if not self._warned:
                    _LOG.warning("no inotify for %s: %s; see fs.inotify.max_user_watches", folder, error.strerror)
                self._warned = True
        return gone

    def wait(self, at_most_s: float) -> None:
        """See `FolderWatch`."""
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 * at_most_s)}
        if self._descriptor in ready:
            os.read(self._descriptor, _BYTES_READ)

    def wake(self) -> None:
        """See `FolderWatch`."""
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """See `FolderWatch`."""
        for descriptor in (self._descriptor, self._wake):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._wake = -1


class PollingWatch:
    """Wakes ten times a second."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def add(self, folders: Iterable[Path]) -> list[Path]:
        """Do nothing: whoever waits looks anyway."""
        return []

    def wait(self, at_most_s: float) -> None:
        """See `FolderWatch`."""
        self._woken.wait(min(at_most_s, _LOOK_EVERY_S))

    def wake(self) -> None:
        """See `FolderWatch`."""
        self._woken.set()

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
