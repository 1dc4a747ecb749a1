"""Copies the names of the folders of pods' logs, so that whoever needs the names need not be allowed to read logs.

The kubelet lets root's group alone list /var/log/pods, and that group may read most logs, too. A process of its own,
which reads nothing and talks to nobody, is in that group; the agent, which talks to others, sees only the copy.

::

    /var/log/pods/<namespace>_<name>_<uid>/<container>      is copied to
    <copy>/<namespace>_<name>_<uid>/<container>             of each pod, the first container only
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carico.podevents.folder_watch import FolderWatch

_LOOK_ANYWAY_S = 5.0
READY = "ready"
"""A file in the copy; it is there once all names have been copied."""

_log = logging.getLogger(__name__)


class PodNames:
    """A copy of the names.

    Parameters
    ----------
    logs : Path
        Where the kubelet keeps the logs of pods.
    copy : Path
        An existing folder, whose folders nothing else makes.
    watch : FolderWatch
    """

    def __init__(self, logs: Path, copy: Path, watch: FolderWatch) -> None:
        self._logs = logs
        self._copy = copy
        self._watch = watch
        self._started: set[str] = set()
        """Pods whose first container has been copied."""

    def look(self) -> None:
        """Copy what has changed.

        Raises
        ------
        OSError
            If a folder cannot be listed or made.
        """
        # Every folder is watched before it is listed, so that what appears in between ends the wait.
        self._watch.add([self._logs])
        there = set(_pods(self._logs))
        for gone in set(_pods(self._copy)) - there:
            shutil.rmtree(self._copy / gone)
        self._started &= there
        for pod in sorted(there - self._started):
            (self._copy / pod).mkdir(exist_ok=True)
            self._watch.add([self._logs / pod])
            container = next(_folders(self._logs / pod), None)
            if container is not None:
                (self._copy / pod / container).mkdir(exist_ok=True)
                self._started.add(pod)
        (self._copy / READY).touch()

    def run(self, stop: threading.Event) -> None:
        """Copy whatever changes until `stop` is set and the watch is woken."""
        while not stop.is_set():
            try:
                self.look()
            except OSError as error:
                _log.warning("pods' names are not copied: %s", error)
            self._watch.wait(_LOOK_ANYWAY_S)


def _pods(folder: Path) -> Iterator[str]:
    # Neither namespaces nor names have an underscore.
    return (name for name in _folders(folder) if name.count("_") == 2)


def _folders(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return  # gone since it was listed
