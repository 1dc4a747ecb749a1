"""Where a node's kubelet keeps the control groups of its pods.

::

    cgroupfs driver                            systemd driver
    kubepods/pod<uid>                          kubepods.slice/kubepods-pod<uid>.slice                  guaranteed
    kubepods/burstable/pod<uid>                .../kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
    kubepods/besteffort/pod<uid>               .../kubepods-besteffort.slice/kubepods-besteffort-pod<uid>.slice

On cgroup v2 these are below /sys/fs/cgroup, on v1 below every controller; a kubelet with a cgroup root of its own
puts that in front.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from carico.errors import PodEventsError

# A UID is a UUID, of a static pod a hash of 32 digits; the systemd driver writes _ for -.
_POD = re.compile(r"(?:^|-)pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?$")
"""The name of a pod's folder; its group is the UID."""
_CLASS = re.compile(r"(?:^|-)(?:besteffort|burstable)(?:\.slice)?$")
_KUBEPODS = re.compile(r"(?:^|-)kubepods(?:\.slice)?$")
_LEVELS = 3


def find_kubepods(root: Path) -> Path:
    """Return the kubelet's folder: the first of that name at the least depth.

    Raises
    ------
    PodEventsError
        If there is none, or a folder cannot be listed.
    """
    folders = [root]
    for _ in range(1 + _LEVELS):
        for folder in folders:
            if _KUBEPODS.search(folder.name):
                return folder
        folders = [folder / name for folder in folders for name in subfolders(folder)]
    raise PodEventsError(
        f"{root} holds no control group kubepods or kubepods.slice, {_LEVELS} levels deep: a node with a kubelet is "
        f"needed, and its /sys/fs/cgroup (in a pod a hostPath); check the root folder"
    )


def class_folders(kubepods: Path) -> list[Path]:
    """Return the folders that pods' folders may be in: the kubelet's own, and one for each class of service.

    Raises
    ------
    PodEventsError
        If the kubelet's folder is gone or cannot be listed.
    """
    names = subfolders(kubepods)
    if not names and not kubepods.is_dir():
        raise gone(kubepods)
    return [kubepods, *(kubepods / name for name in names if _CLASS.search(name))]


def pods_in(folders: Iterable[Path]) -> dict[Path, str]:
    """Return the folders of all pods, with the pods' UIDs as the Kubernetes API writes them.

    Raises
    ------
    PodEventsError
        If a folder cannot be listed.
    """
    found = ((folder / name, _POD.search(name)) for folder in folders for name in subfolders(folder))
    return {folder: match[1].replace("_", "-") for folder, match in found if match}


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, without symbolic links; none if it is gone.

    Raises
    ------
    PodEventsError
        If the folder cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []  # gone since it was listed
    except OSError as error:
        raise PodEventsError(
            f"{folder} cannot be listed ({error.strerror}): the agent must be allowed to read control groups"
        ) from error


def gone(kubepods: Path) -> PodEventsError:
    """Return the error to raise when the kubelet's folder has vanished."""
    return PodEventsError(f"{kubepods} is gone: the kubelet makes it anew when it starts")
