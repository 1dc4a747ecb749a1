"""A maker of clusters that are files: for tests of the life of a cluster, without programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import ClusterError
from testbed.real.maker import CREATE_TIMEOUT_S
from testbed.requirements import Problem


class FakeMaker:
    """A maker of clusters, each of which is a file in the folder that it is given.

    Parameters
    ----------
    version : str
        Version of Kubernetes, and the clusters' fingerprint.
    fails : bool
        Whether making a cluster fails half-way.
    """

    kind = "fake"
    on_this_machine = True
    create_timeout_s = CREATE_TIMEOUT_S

    def __init__(self, version: str = "v1.34.4", fails: bool = False) -> None:
        self.kubernetes_version = version
        self.calls: list[str] = []
        """Everything that was done, and the cluster to which."""
        self._fails = fails

    def preflight(self) -> Sequence[Problem]:
        """Return no problem; see `ClusterMaker.preflight`."""
        return ()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version; see `ClusterMaker.fingerprint`."""
        return {"kubernetes": self.kubernetes_version}

    def create(self, name: str, folder: Path, timeout_s: float) -> None:
        """Write the file; see `ClusterMaker.create`."""
        self.calls.append(f"create {name}")
        self.kubeconfig(name, folder).write_text(name, encoding="utf-8")
        if self._fails:
            raise ClusterError(f"{name} cannot be made")

    def kubeconfig(self, name: str, folder: Path) -> Path:
        """See `ClusterMaker.kubeconfig`."""
        return folder / "kubeconfig"

    def delete(self, name: str, folder: Path) -> None:
        """Remove the file; see `ClusterMaker.delete`."""
        self.calls.append(f"delete {name}")
        self.kubeconfig(name, folder).unlink(missing_ok=True)

    def collect_logs(self, name: str, folder: Path, into: Path) -> None:
        """Write a log of one line; see `ClusterMaker.collect_logs`."""
        (into / "scheduler.log").write_text("nothing happened\n", encoding="utf-8")
