"""Which pods count, and their names, by the folders that the kubelet makes for their logs; no log is read.

::

    /var/log/pods/<namespace>_<name>_<uid>/<container>

The kubelet makes a pod's folder right before it asks the runtime for the sandbox, so later than the pod's control
group: a pod of the platform may count for that moment. A container's folder is made with the container: a pod without
any waits, for its image for instance, and consumes nothing meanwhile; counted, it would teach its node that pods cost
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from carico.clock import Clock
from carico.errors import PodEventsError
from carico.podevents.source import PLATFORM_NAMESPACES, full_name

PATIENCE_S = 30.0
"""A pod without containers counts this long: it is about to start, and starting it already loads the node."""


class PodLogs:
    """Says which pods of a node count, see `carico.podevents.cgroups.Counted`.

    Parameters
    ----------
    folder : path
        Where the kubelet keeps the logs of pods.
    clock : Clock
    namespaces : collection of str
        Kubernetes namespaces whose pods do not count.
    """

    def __init__(self, folder: str | Path, clock: Clock, namespaces: Collection[str] = PLATFORM_NAMESPACES) -> None:
        self._folder = Path(folder)
        self._clock = clock
        self._namespaces = frozenset(namespaces)
        self._waiting: dict[str, float] = {}
        """When each pod that has had no container yet was first seen."""
        self._started: set[str] = set()

    def counted_from_group(self, uids: Iterable[str]) -> dict[str, str]:
        """Return those of these pods that count from their control group on, by UID with their names.

        All do but the platform's, and those that have long waited for their first container. A pod that has no folder
        yet counts without a name.

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

    def _look(self) -> tuple[dict[str, str], set[str]]:
        """Return the names of all pods but the platform's, by UID, and the UIDs of the platform's; note who started."""
        try:
            found = {path: path.name.split("_") for path in self._folder.iterdir()}
        except OSError as error:
            raise PodEventsError(
                f"{self._folder} cannot be listed ({error.strerror}): which pods count is told by the folders of their "
                f"logs; let the agent see the node's (in a pod a hostPath), or set `pod_logs: null`, and all count"
            ) from error
        # Neither namespaces nor names have an underscore.
        pods = {path: parts for path, parts in found.items() if len(parts) == 3}
        platform = {uid for namespace, _, uid in pods.values() if namespace in self._namespaces}
        names = {uid: full_name(namespace, name) for namespace, name, uid in pods.values() if uid not in platform}
        self._started &= names.keys()
        waiting = names.keys() - self._started
        self._started |= {uid for path, (_, _, uid) in pods.items() if uid in waiting and _has_containers(path)}
        return names, platform


def _has_containers(folder: Path) -> bool:
    try:
        return any(True for _ in folder.iterdir())
    except OSError:
        return True  # gone since it was listed, or not readable: the pod counts
