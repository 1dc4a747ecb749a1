"""Waits until a folder appears or vanishes in one of several others, by Linux's inotify or by polling.

A watch only wakes its caller, who then lists the folders. The content of events is not used, so no event can be misread
or lost.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from inotify_simple import INotify, flags, masks

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1
_CHANGES = flags.CREATE | flags.DELETE | masks.MOVE | flags.ONLYDIR


class FolderWatch(Protocol):
    """Waits for changes in folders."""

    def add(self, folders: Iterable[Path]) -> list[Path]:
        """Watch these folders, too, and return those that do not exist; a folder may be added more than once."""
        ...

    def wait(self, at_most_s: float) -> None:
        """Return when something may have happened since the last call, or after so many seconds."""
        ...

    def wake(self) -> None:
        """End the present wait and every later one; may be called from any thread."""
        ...

    def close(self) -> None:
        """Stop watching; closing twice is fine."""
        ...


def folder_watch() -> FolderWatch:
    """Return a watch by inotify, or one that polls every tenth of a second if the kernel offers no inotify instance."""
    try:
        return InotifyWatch()
    except OSError as error:
        _log.warning("no inotify (%s; see fs.inotify.max_user_instances): looking ten times a second", error.strerror)
        return PollingWatch()


class InotifyWatch:
    """Waits for the kernel's events.

    Raises
    ------
    OSError
        If too many instances are in use, or the kernel has no inotify.
    """

    def __init__(self) -> None:
        self._inotify = INotify()
        self._wake = os.fdopen(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC), "rb", buffering=0)
        self._warned = False
        self._poll = select.poll()
        for file in (self._inotify, self._wake):
            self._poll.register(file, select.POLLIN)

    def add(self, folders: Iterable[Path]) -> list[Path]:
        """See `FolderWatch`. Changes in a folder that cannot be watched are seen when a wait runs out."""
        gone = []
        for folder in folders:
            try:
                self._inotify.add_watch(folder, _CHANGES)
            except FileNotFoundError:
                gone.append(folder)
            except OSError as error:
                if not self._warned:
                    _log.warning("no inotify for %s: %s; see fs.inotify.max_user_watches", folder, error.strerror)
                self._warned = True
        return gone

    def wait(self, at_most_s: float) -> None:
        """See `FolderWatch`."""
        self._poll.poll(1000 * at_most_s)
        self._inotify.read(timeout=0)

    def wake(self) -> None:
        """See `FolderWatch`."""
        os.eventfd_write(self._wake.fileno(), 1)

    def close(self) -> None:
        """See `FolderWatch`."""
        self._inotify.close()
        self._wake.close()


class PollingWatch:
    """Waits a tenth of a second at most."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def add(self, folders: Iterable[Path]) -> list[Path]:
        """Do nothing: every wait is short."""
        return []

    def wait(self, at_most_s: float) -> None:
        """See `FolderWatch`."""
        self._woken.wait(min(at_most_s, _LOOK_EVERY_S))

    def wake(self) -> None:
        """See `FolderWatch`."""
        self._woken.set()

    def close(self) -> None:
        """Do nothing: nothing is held."""
