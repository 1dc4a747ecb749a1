"""The clusters that the testbed has made on this machine: a folder each, held open by the process that uses it.

The kernel ends the hold with its process, so what a killed process leaves is known as such. A cluster has a folder
before anything of it exists, and loses it when nothing of it is left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from testbed.errors import ClusterError, ResultsError
from testbed.results.files import folders_with, read_versioned, write_whole
from testbed.results.locks import ActiveProcesses, locked
from testbed.user_cache import user_cache

REGISTRY_SCHEMA_VERSION = 1


class Registered(msgspec.Struct, frozen=True):
    """What is known of a cluster."""

    name: str
    kind: str
    """Of its maker."""
    run: str
    """The id of the run that made it."""
    session: str = ""
    """Tells sessions apart that run side by side: tox's environment."""
    kept: bool = False
    """Whether it outlives its session; only once it stands."""
    schema_version: int = REGISTRY_SCHEMA_VERSION


class ClusterFolder:
    """The folder of a cluster.

    Parameters
    ----------
    path : Path
        It need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "files"
        """What the cluster's maker has of it."""
        self._file = path / "cluster.json"
        self._processes = ActiveProcesses(path / "processes")

    def read(self) -> Registered:
        """Return what is known of it; raises ResultsError if that cannot be read."""
        return read_versioned(self._file, Registered, REGISTRY_SCHEMA_VERSION, "description of a cluster")

    def write(self, cluster: Registered) -> None:
        """Note what is known of it, and create the folder if need be."""
        try:
            self.files.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, msgspec.json.encode(cluster))
        except OSError as error:
            raise ClusterError(
                f"cannot note a cluster in {self.path}: {error.strerror}; XDG_CACHE_HOME names another place"
            ) from error

    @property
    def is_used(self) -> bool:
        """Whether a process uses it, this one included."""
        return self._processes.any_active

    def hold(self) -> None:
        """Use it, until `release` or this process's end."""
        self._processes.join()

    def release(self) -> None:
        """Use it no longer."""
        self._processes.leave()

    def remove(self) -> None:
        """Forget it, when nothing of the cluster is left."""
        self.release()
        shutil.rmtree(self.path, ignore_errors=True)


class Registry:
    """All of them.

    Parameters
    ----------
    place : Path, optional
        The folder of their folders; in the user's cache by default.
    """

    def __init__(self, place: Path | None = None) -> None:
        self._place = user_cache() / "clusters" if place is None else place

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process look for clusters, or note one."""
        try:
            self._place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(
                f"cannot note clusters in {self._place}: {error.strerror}; XDG_CACHE_HOME names another place"
            ) from error
        with locked(self._place / "lock"):
            yield

    def folder(self, name: str) -> ClusterFolder:
        """Return the folder of a cluster, which may be a new one."""
        return ClusterFolder(self._place / name)

    def all(self) -> list[tuple[ClusterFolder, Registered]]:
        """Return the clusters, by name; what a newer version has noted is left to it."""
        found = []
        for folder in map(ClusterFolder, folders_with(self._place, "cluster.json")):
            try:
                found.append((folder, folder.read()))
            except ResultsError:
                continue
        return found
