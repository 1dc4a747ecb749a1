"""The clusters that the testbed has made on this machine: a folder for each, locked by the process that uses it.

The kernel releases the lock when the process ends, so clusters of killed processes can be told from those in use. The
folder is made before anything of the cluster exists, and removed when nothing of the cluster is left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from carico.files import write_whole
from testbed.errors import ClusterError, ResultsError
from testbed.results.files import folders_with, read_versioned
from testbed.results.locks import ActiveProcesses, locked
from testbed.user_cache import user_cache

REGISTRY_SCHEMA_VERSION = 1


class Registered(msgspec.Struct, frozen=True):
    """The record of a cluster."""

    name: str
    kind: str
    """`ClusterMaker.kind`."""
    run: str
    """The id of the run that made it."""
    session: str = ""
    """Distinguishes sessions that run side by side: tox's environment."""
    kept: bool = False
    """Whether it outlives its session; set when it is complete."""
    schema_version: int = REGISTRY_SCHEMA_VERSION


class ClusterFolder:
    """The folder of a cluster.

    Parameters
    ----------
    path : Path
        It need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "files"
        """Holds the maker's files."""
        self._file = path / "cluster.json"
        self._processes = ActiveProcesses(path / "processes")

    def read(self) -> Registered:
        """Return the cluster's record; raises ResultsError if it cannot be read."""
        return read_versioned(self._file, Registered, REGISTRY_SCHEMA_VERSION, "description of a cluster")

    def write(self, cluster: Registered) -> None:
        """Write the cluster's record, and create the folder if need be."""
        try:
            self.files.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, msgspec.json.encode(cluster))
        except OSError as error:
            raise ClusterError(
                f"cannot record a cluster in {self.path}: {error.strerror}; set XDG_CACHE_HOME to use another folder"
            ) from error

    @property
    def is_used(self) -> bool:
        """Whether a process uses the cluster, this one included."""
        return self._processes.any_active

    def hold(self) -> None:
        """Mark the cluster as in use, until `release` or this process's end."""
        self._processes.join()

    def release(self) -> None:
        """Mark the cluster as not in use by this process."""
        self._processes.leave()

    def remove(self) -> None:
        """Remove the folder, once nothing of the cluster is left."""
        self.release()
        shutil.rmtree(self.path, ignore_errors=True)


class Registry:
    """The folders of all clusters.

    Parameters
    ----------
    place : Path, optional
        The folder that holds them; in the user's cache by default.
    """

    def __init__(self, place: Path | None = None) -> None:
        self._place = user_cache() / "clusters" if place is None else place

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from reading or changing the registry within the context."""
        try:
            self._place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(
                f"cannot record clusters in {self._place}: {error.strerror}; set XDG_CACHE_HOME to use another folder"
            ) from error
        with locked(self._place / "lock"):
            yield

    def folder(self, name: str) -> ClusterFolder:
        """Return the folder of a cluster, which may not exist yet."""
        return ClusterFolder(self._place / name)

    def all(self) -> list[tuple[ClusterFolder, Registered]]:
        """Return the clusters by name, without records that cannot be read, such as those of a newer version."""
        found = []
        for folder in map(ClusterFolder, folders_with(self._place, "cluster.json")):
            try:
                found.append((folder, folder.read()))
            except ResultsError:
                continue
        return found
