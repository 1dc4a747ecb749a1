"""Which pods do not count, by the folders that the kubelet makes for their logs; no log is read.

::

    /var/log/pods/<namespace>_<name>_<uid>/<container>

The kubelet makes a pod's folder right before it asks the runtime for the sandbox, so later than the pod's control
group: a pod of the platform may count for that moment. A container's folder is made with the container: a pod without
any waits, for its image for instance, and consumes nothing meanwhile; counted, it would teach its node that pods cost
nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from carico.clock import Clock
from carico.errors import PodEventsError
from carico.podevents.source import PLATFORM_NAMESPACES

PATIENCE_S = 30.0
"""A pod without containers counts this long: it is about to start, and starting it already loads the node."""


class PodLogs:
    """The pods of a node that do not count.

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

    def excluded(self) -> frozenset[str]:
        """Return the UIDs of the platform's pods, and of pods that have long waited for their first container.

        Raises
        ------
        PodEventsError
            If the folder cannot be read.
        """
        try:
            found = {path: path.name.split("_") for path in self._folder.iterdir()}
        except OSError as error:
            raise PodEventsError(
                f"{self._folder} cannot be listed ({error.strerror}): which pods count is told by the folders of their "
                f"logs; let the agent see the node's (in a pod a hostPath), or set `pod_logs: null`, and all count"
            ) from error
        # Neither namespaces nor names have an underscore.
        pods = {parts[2]: (path, parts[0]) for path, parts in found.items() if len(parts) == 3}
        platform = {uid for uid, (_, namespace) in pods.items() if namespace in self._namespaces}
        now = self._clock.now()
        self._started &= pods.keys()
        self._started |= {
            uid for uid, (path, _) in pods.items() if uid not in platform | self._started and _has_containers(path)
        }
        waiting = pods.keys() - platform - self._started
        self._waiting = {uid: self._waiting.get(uid, now) for uid in waiting}
        return frozenset(platform | {uid for uid, since in self._waiting.items() if now - since > PATIENCE_S})


def _has_containers(folder: Path) -> bool:
    try:
        return any(True for _ in folder.iterdir())
    except OSError:
        return True  # gone since it was listed, or not readable: the pod counts
