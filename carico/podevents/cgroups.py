"""Pods by the control groups that the kubelet makes for them: needs no socket, only the right to read /sys/fs/cgroup.

A pod counts from when the kubelet makes its group, which is before the kubelet asks the runtime for the sandbox: no
other source knows earlier. A pod counts until its last container has ended: the runtime removes a container's group
when the container exits, so a pod whose group has had two members, the sandbox and a container, has ended when only
one is left. (Where the runtime keeps groups of its own there, as CRI-O can, a pod ends when the kubelet cleans up, up
to some seconds later.) Groups have no labels: unless the caller says which pods count and what they are called, as
`pod_logs` does, pods of DaemonSets and of the system are counted like any other, without names. Static pods are known
by their UID and do not count.

`carico.telemetry.kubepods` says where the groups are. inotify says when to look; without it, the source looks ten times
a second. A change is always the difference between two looks, so a folder that appears and vanishes between them is
never reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from carico.clock import Clock
from carico.podevents.folder_watch import FolderWatch, folder_watch
from carico.podevents.reconnecting import SessionSource
from carico.podevents.source import is_static
from carico.telemetry.kubepods import class_folders, find_kubepods, gone, pods_in, subfolders

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
                raise gone(kubepods)
            folders = class_folders(kubepods)
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


def _pods_in(folders: Iterable[Path]) -> dict[Path, str]:
    """The UIDs of all pods that have a group, except static ones."""
    return {folder: uid for folder, uid in pods_in(folders).items() if not is_static(uid)}


def _members(pod: Path) -> int:
    """How many groups a pod's group holds; cheap, because every look calls this for every pod."""
    try:
        links = pod.stat().st_nlink
    except OSError:
        return 0  # gone since it was listed
    return links - 2 if links >= 2 else len(subfolders(pod))  # some file systems do not count links
