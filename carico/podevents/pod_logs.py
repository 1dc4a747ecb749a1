"""Which pods count, and their names, by the folders that the kubelet makes for their logs; no log is read.

::

    /var/log/pods/<namespace>_<name>_<uid>/<container>

The folders may also be a copy of the kubelet's, see `carico.podevents.pod_names`.

The kubelet makes a pod's folder right before it asks the runtime for the sandbox, so after the pod's control group. It
makes a container's folder right before the container is created. A pod without any container waits, for its image for
instance, and consumes nothing meanwhile; if it were counted, its node would learn that pods cost nothing.

A pod counts from one of two moments on, as the caller chooses:

- From its control group. This is the earliest moment, but nothing says whose group it is before the pod's folder
  exists. Until then a pod counts without a name, and a pod of the platform may count for a moment.
- From its first container. Only pods with names count. No time is lost: the container's control group, made after its
  folder, ends the wait of `carico.podevents.cgroups`. And no pod is lost: the scheduler of the variant `demand` counts
  a pod as on its way until the report of its node counts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from carico.clock import Clock
from carico.errors import PodEventsError
from carico.podevents.source import PLATFORM_NAMESPACES, full_name

if TYPE_CHECKING:
    from carico.podevents.folder_watch import FolderWatch

PATIENCE_S = 30.0
"""How long a pod without containers counts, if pods count from their control group on: it is about to start, and
starting it already loads the node."""


class PodLogs:
    """Says which pods of a node count, see `carico.podevents.cgroups.Counted`.

    Parameters
    ----------
    folder : path
        Where the kubelet keeps the logs of pods.
    clock : Clock
    namespaces : collection of str
        Kubernetes namespaces whose pods do not count.
    watch : FolderWatch, optional
        Is told the folders to watch. Needed for a copy of the names (`carico.podevents.pod_names`), where a container's
        folder may appear after the container's control group.
    """

    def __init__(
        self,
        folder: str | Path,
        clock: Clock,
        namespaces: Collection[str] = PLATFORM_NAMESPACES,
        watch: FolderWatch | None = None,
    ) -> None:
        self._watched = (lambda folders: None) if watch is None else watch.add
        self._folder = Path(folder)
        self._clock = clock
        self._namespaces = frozenset(namespaces)
        self._waiting: dict[str, float] = {}
        """When each pod that has had no container yet was first seen."""
        self._started: set[str] = set()

    def counted_from_group(self, uids: Iterable[str]) -> dict[str, str]:
        """Return the names of those of these pods that count from their control group on, by UID.

        All pods count except those of the platform and those that have long waited for their first container. A pod
        that has no folder yet counts without a name.

        Raises
        ------
        PodEventsError
            If the folder cannot be read.
        """
        names, platform = self._look()
        now = self._clock.now()
        self._waiting = {uid: self._waiting.get(uid, now) for uid in names.keys() - self._started}
        excluded = platform | {uid for uid, since in self._waiting.items() if now - since > PATIENCE_S}
        return {uid: names.get(uid, "") for uid in uids if uid not in excluded}

    def counted_from_container(self, uids: Iterable[str]) -> dict[str, str]:
        """Return the names of those of these pods that count from their first container on, by UID.

        All pods count that have had a container, except those of the platform.

        Raises
        ------
        PodEventsError
            If the folder cannot be read.
        """
        names, _ = self._look()
        return {uid: names[uid] for uid in uids if uid in self._started}

    def _look(self) -> tuple[dict[str, str], set[str]]:
        """Return the names of pods by UID, without the platform's, and the platform's UIDs; note which have started."""
        self._watched([self._folder])
        try:
            found = {path: path.name.split("_") for path in self._folder.iterdir()}
        except OSError as error:
            raise PodEventsError(
                f"{self._folder} cannot be listed ({error.strerror}): the folders of their logs tell which pods count; "
                f"let the agent see the node's folder (in a pod a hostPath) or, unless pods need names, set "
                f"`pod_logs: null`, which counts all pods"
            ) from error
        # Neither namespaces nor names have an underscore.
        pods = {path: parts for path, parts in found.items() if len(parts) == 3}
        platform = {uid for namespace, _, uid in pods.values() if namespace in self._namespaces}
        names = {uid: full_name(namespace, name) for namespace, name, uid in pods.values() if uid not in platform}
        self._started &= names.keys()
        waiting = names.keys() - self._started
        wait = {path: uid for path, (_, _, uid) in pods.items() if uid in waiting}
        self._watched(wait)
        self._started |= {uid for path, uid in wait.items() if _has_containers(path)}
        return names, platform


def _has_containers(folder: Path) -> bool:
    try:
        return any(True for _ in folder.iterdir())
    except OSError:
        return True  # gone since it was listed, or not readable: the pod counts
