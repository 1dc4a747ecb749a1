"""The protocol of what makes clusters of one kind.

A maker knows its programs and nothing else: no session, no scenario, no owner. When a cluster is made, used again or
removed is decided in `testbed.real.lifecycle`; what its nodes and pods are like in `testbed.real.platform`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from testbed.requirements import Problem


class ClusterMaker(Protocol):
    """Makes, describes and removes clusters of one kind, on this machine.

    Everything of a cluster that is not in its own API lies in the folder that is passed in, which is empty before
    `create`. A cluster is known by a name that begins with `carico-`; no other cluster is ever touched.
    """

    kind: str
    """The provider's name, for example "kwok"."""

    @property
    def kubernetes_version(self) -> str:
        """The version that its clusters run, for example "v1.34.4"; raises TestbedError if it cannot be told."""
        ...

    def preflight(self) -> Sequence[Problem]:
        """Return what is missing to make one; see `ClusterProvider.preflight`."""
        ...

    def collect_logs(self, name: str, folder: Path, into: Path) -> None:
        """Copy the logs of the control plane, and of what else may tell why a run failed, into a folder.

        Raises
        ------
        ClusterError
            If not all of them can be had.
        """
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Return what a cluster is made of, for example versions, the node image, a digest of its configuration.

        A kept cluster is used again only if all of it is the same; the names of what differs are told.
        """
        ...

    def create(self, name: str, folder: Path, timeout_s: float) -> None:
        """Make a cluster.

        Raises
        ------
        ClusterError
            If that fails or takes longer than `timeout_s` seconds. What is there by then is removed with `delete`.
        """
        ...

    def kubeconfig(self, name: str, folder: Path) -> Path:
        """Return where the kubeconfig of a cluster is, whose current context leads to it."""
        ...

    def delete(self, name: str, folder: Path) -> None:
        """Remove a cluster, a half-made one, too; one that is not there is none to remove.

        Raises
        ------
        ClusterError
            If something of it is still there.
        """
        ...
