"""Which pods are the platform's, by the folders that the kubelet makes for their logs: a folder's name says it all.

::

    /var/log/pods/<namespace>_<name>_<uid>

The folder is made right before the runtime is asked for the pod's sandbox, so later than the pod's control group: a pod
of the platform may count for that moment. Nothing in the folders is read.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from carico.errors import PodEventsError
from carico.podevents.source import PLATFORM_NAMESPACES


def platform_pods(folder: str | Path, namespaces: Collection[str] = PLATFORM_NAMESPACES) -> frozenset[str]:
    """Return the UIDs of the pods of some namespaces that this node has, or had lately.

    Parameters
    ----------
    folder : path
        Where the kubelet keeps the logs of pods.
    namespaces : collection of str
        Kubernetes namespaces whose pods do not count.

    Raises
    ------
    PodEventsError
        If the folder cannot be read.
    """
    try:
        names = [path.name for path in Path(folder).iterdir()]
    except OSError as error:
        raise PodEventsError(
            f"{folder} cannot be listed ({error.strerror}): pods of the platform are told from others by the folders "
            f"of their logs; let the agent see the node's (in a pod a hostPath), or set `pod_logs: null`, and all count"
        ) from error
    # Neither namespaces nor names have an underscore.
    parts = (name.split("_") for name in names)
    return frozenset(part[2] for part in parts if len(part) == 3 and part[0] in namespaces)
