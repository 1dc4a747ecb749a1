"""Pods by the control groups that the kubelet makes for them: needs no socket, only the right to read /sys/fs/cgroup.

A pod counts from when the kubelet makes its group, which is before the kubelet asks the runtime for the sandbox: no
other source knows earlier. A pod counts until its last container has ended: the runtime removes a container's group
when the container exits, so a pod whose group has had two members, the sandbox and a container, has ended when only
one is left. (Where the runtime keeps groups of its own there, as CRI-O can, a pod ends when the kubelet cleans up, up
to some seconds later.) Groups have no labels: unless the caller says which pods count and what they are called, as
`pod_logs` does, pods of DaemonSets and of the system are counted like any other, without names. Static pods are known
by their UID and do not count.

::

    cgroupfs driver                            systemd driver
    kubepods/pod<uid>                          kubepods.slice/kubepods-pod<uid>.slice                  guaranteed
    kubepods/burstable/pod<uid>                .../kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
    kubepods/besteffort/pod<uid>               .../kubepods-besteffort.slice/kubepods-besteffort-pod<uid>.slice

On cgroup v2 these are below /sys/fs/cgroup, on v1 below every controller; a kubelet with a cgroup root of its own
puts that in front. inotify says when to look; without it, the source looks ten times a second. A change is always the
difference between two looks, so a folder that appears and vanishes between them is never reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from carico.clock import Clock
from carico.errors import PodEventsError
from carico.podevents.folder_watch import FolderWatch, folder_watch
from carico.podevents.reconnecting import SessionSource
from carico.podevents.source import is_static

# A UID is a UUID, of a static pod a hash of 32 digits; the systemd driver writes _ for -.
_POD = re.compile(r"(?:^|-)pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?$")
"""The name of a pod's folder; its group is the UID."""
_CLASS = re.compile(r"(?:^|-)(?:besteffort|burstable)(?:\.slice)?$")
_KUBEPODS = re.compile(r"(?:^|-)kubepods(?:\.slice)?$")
_LEVELS = 3
_LOOK_ANYWAY_S = 5.0
"""Even without an event: what is made through another mount of the hierarchy causes none."""

Counted = Callable[[Collection[str]], Mapping[str, str]]
"""Given the UIDs of pods, returns those that count, with their names: NAMESPACE/NAME, empty where it is not known."""


def _all_unnamed(uids: Collection[str]) -> Mapping[str, str]:
    return dict.fromkeys(uids, "")


class CgroupEvents(SessionSource):
    """The pods of one tree of control groups.

    Parameters
    ----------
    root : path
        Where control groups are mounted, or a folder below: the kubelet's folder is searched there, three levels deep.
    counted : callable, optional
        Says which pods count, and their names, see `Counted`; called at every look. By default all pods count, without
        names.
    clock : Clock, optional
        Dates the changes; the machine's by default.
    watch : FolderWatch, optional
        Whatever else it watches also causes a look; it is closed with the source.
    """

    def __init__(
        self,
        root: str | Path = "/sys/fs/cgroup",
        counted: Counted = _all_unnamed,
        clock: Clock | None = None,
        watch: FolderWatch | None = None,
    ) -> None:
        self._root = Path(root)
        self._counted = counted
        self._watch = folder_watch() if watch is None else watch
        self._most: dict[Path, int] = {}
        """The most members that each pod's group has had."""
        super().__init__(f"control groups in {root}", clock, interrupt=self._watch.wake)

    def close(self) -> None:
        """See `PodEventSource`."""
        super().close()
        self._watch.close()

    def _session(self) -> Iterator[None]:
        kubepods = find_kubepods(self._root)
        while not self._sessions.closed:
            # Every folder is watched before it is listed, so that what appears in between ends the wait.
            if self._watch.add([kubepods]):
                raise _gone(kubepods)
            folders = _folders(kubepods)
            self._watch.add(folders)
            pods = _pods_in(folders)
            self._watch.add(pods)
            members = {pod: _members(pod) for pod in pods}
            self._most = {pod: max(number, self._most.get(pod, 0)) for pod, number in members.items()}
            self._pods.replace(self._running(pods, members))
            yield
            self._watch.wait(_LOOK_ANYWAY_S)

    def _running(self, pods: dict[Path, str], members: dict[Path, int]) -> Mapping[str, str]:
        return self._counted({uid for pod, uid in pods.items() if members[pod] >= min(self._most.get(pod, 0), 2)})


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


def pod_folders(kubepods: Path) -> dict[str, Path]:
    """Return the folders of all pods that have a group, by UID, except static ones.

    Raises
    ------
    PodEventsError
        If the kubelet's folder is gone or cannot be listed.
    """
    return {uid: folder for folder, uid in _pods_in(_folders(kubepods)).items()}


def _folders(kubepods: Path) -> list[Path]:
    """The folders that pods' folders may be in."""
    names = _names(kubepods)
    if not names and not kubepods.is_dir():
        raise _gone(kubepods)
    return [kubepods, *(kubepods / name for name in names if _CLASS.search(name))]


def _pods_in(folders: list[Path]) -> dict[Path, str]:
    """The UIDs of all pods that have a group, except static ones."""
    found = ((folder / name, _POD.search(name)) for folder in folders for name in _names(folder))
    uids = {folder: match[1].replace("_", "-") for folder, match in found if match}
    return {folder: uid for folder, uid in uids.items() if not is_static(uid)}


def _gone(kubepods: Path) -> PodEventsError:
    return PodEventsError(f"{kubepods} is gone: the kubelet makes it anew when it starts")


def _members(pod: Path) -> int:
    """How many groups a pod's group holds; cheap, because every look calls this for every pod."""
    try:
        links = pod.stat().st_nlink
    except OSError:
        return 0  # gone since it was listed
    return links - 2 if links >= 2 else len(_names(pod))  # some file systems do not count links


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []  # gone since it was listed
    except OSError as error:
        raise PodEventsError(
            f"{folder} cannot be listed ({error.strerror}): the agent must be allowed to read control groups"
        ) from error
