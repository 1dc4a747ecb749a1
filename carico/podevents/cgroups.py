"""Pods by the control groups that the kubelet makes for them: no socket, no right but to read /sys/fs/cgroup.

The kubelet makes a pod's group before it asks the runtime for the sandbox, so this tells early that a pod starts. It
tells late that one has ended: the kubelet removes the group when it tidies up, up to some seconds after the last
container. Groups have no labels: DaemonSet, static and system pods are counted like any other, unless the caller
names the UIDs to leave out.

::

    cgroupfs driver                            systemd driver
    kubepods/pod<uid>                          kubepods.slice/kubepods-pod<uid>.slice                  guaranteed
    kubepods/burstable/pod<uid>                .../kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
    kubepods/besteffort/pod<uid>               .../kubepods-besteffort.slice/kubepods-besteffort-pod<uid>.slice

On cgroup v2 these stand below /sys/fs/cgroup, on v1 below every controller; a kubelet with a cgroup root of its own
puts that in front. inotify says when to look; where there is none, it looks ten times a second.
What is told is always the difference of two looks, so a folder that came and went in between is not told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np

from carico.clock import Clock, SystemClock
from carico.errors import PodEventsError
from carico.podevents.folder_watch import folder_watch
from carico.podevents.reconcile import RunningPods
from carico.podevents.reconnecting import Reconnecting
from carico.podevents.source import OnChange

# A UID is a UUID, of a static pod a hash of 32 digits; the systemd driver writes _ for -.
POD = re.compile(r"(?:^|-)pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?$")
"""Folders of pods; the group is the UID."""
_CLASS = re.compile(r"(?:^|-)(?:besteffort|burstable)(?:\.slice)?$")
_KUBEPODS = re.compile(r"(?:^|-)kubepods(?:\.slice)?$")
_LEVELS = 3
_LOOK_ANYWAY_S = 1.0
"""Even without news: what is made through another mount of the hierarchy comes without an event."""


class CgroupEvents:
    """The pods of one tree of control groups.

    Parameters
    ----------
    root : path
        Where control groups are mounted, or any folder below it: the kubelet's is looked for there, three levels deep.
    left_out : callable, optional
        Returns the UIDs of pods that do not count; asked whenever there is news.
    pattern : re.Pattern
        What a pod's folder is called; its group is the UID.
    clock : Clock, optional
        Dates the changes; the machine's by default.
    rng : numpy.random.Generator, optional
        Spreads the waits between attempts after failures; seeded by the system by default.
    """

    def __init__(
        self,
        root: str | Path = "/sys/fs/cgroup",
        left_out: Callable[[], Collection[str]] = tuple,
        pattern: re.Pattern[str] = POD,
        clock: Clock | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.root = Path(root)
        self._left_out = left_out
        self._pattern = pattern
        self._clock = clock or SystemClock()
        self._watch = folder_watch()
        self._sessions = Reconnecting(
            f"control groups in {root}", self._session, rng or np.random.default_rng(), interrupt=self._watch.wake
        )

    @property
    def failures(self) -> int:
        """How often the groups could not be read."""
        return self._sessions.failures

    @property
    def connected(self) -> bool:
        """Whether the groups can be read; while they cannot, the count is the last one known."""
        return self._sessions.connected

    def start(self, on_change: OnChange) -> None:
        """See `PodEventSource`."""
        self._pods = RunningPods(on_change, self._clock)
        self._sessions.start()

    def count(self) -> int:
        """See `PodEventSource`."""
        return len(self._pods_in(_folders(find_kubepods(self.root))))

    def close(self) -> None:
        """See `PodEventSource`."""
        self._sessions.close()
        self._watch.close()

    def _session(self) -> Iterator[None]:
        kubepods = find_kubepods(self.root)
        while not self._sessions.closed:
            # Every folder is watched before it is listed, so that what comes in between wakes.
            self._watch.add([kubepods])
            folders = _folders(kubepods)
            self._watch.add(folders)
            self._pods.become(self._pods_in(folders))
            yield
            self._watch.wait(_LOOK_ANYWAY_S)

    def _pods_in(self, folders: list[Path]) -> set[str]:
        matches = (self._pattern.search(name) for folder in folders for name in _names(folder))
        uids = {match[1].replace("_", "-") for match in matches if match}
        return uids.difference(self._left_out())


def find_kubepods(root: Path) -> Path:
    """Return the kubelet's folder: the first of that name at the least depth.

    Raises
    ------
    PodEventsError
        If there is none.
    """
    folders = [root]
    for _ in range(1 + _LEVELS):
        for folder in folders:
            if _KUBEPODS.search(folder.name):
                return folder
        folders = [folder / name for folder in folders for name in _names(folder)]
    raise PodEventsError(
        f"{root} holds no control group kubepods or kubepods.slice, {_LEVELS} levels deep: a node with a kubelet is "
        f"needed, and its /sys/fs/cgroup (in a pod a hostPath); check the root folder"
    )


def _folders(kubepods: Path) -> list[Path]:
    """The folders that pods' folders may be in."""
    names = _names(kubepods)
    if not names and not kubepods.is_dir():
        raise PodEventsError(f"{kubepods} is gone: the kubelet makes it anew when it starts")
    return [kubepods, *(kubepods / name for name in names if _CLASS.search(name))]


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []  # gone since it was named
    except OSError as error:
        raise PodEventsError(
            f"{folder} cannot be listed ({error.strerror}): the agent must be allowed to read control groups"
        ) from error
