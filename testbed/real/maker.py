"""The protocol of makers: each makes clusters of one kind.

A maker knows its programs, but no session, scenario or owner. `testbed.real.lifecycle` decides when a cluster is made,
used again or removed; `testbed.real.platform` decides what its nodes and pods are like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from testbed.requirements import Problem

CREATE_TIMEOUT_S = 600.0
"""Enough for a cluster on this machine."""


class ClusterMaker(Protocol):
    """Makes, describes and removes clusters of one kind.

    Everything that belongs to a cluster and is not in its API lies in the folder that is passed in, which is empty
    before `create`. Every cluster's name begins with `carico-`; clusters with other names are never touched.
    """

    kind: str
    """The provider's name, for example "kwok"."""
    on_this_machine: bool
    """Whether its clusters share the CPUs of the process that measures."""

    @property
    def create_timeout_s(self) -> float:
        """The longest that making a cluster may take."""
        ...

    @property
    def kubernetes_version(self) -> str:
        """The version that its clusters run, for example "v1.34.4"; raises TestbedError if that cannot be found out."""
        ...

    def preflight(self) -> Sequence[Problem]:
        """Return what is missing to make a cluster; see `ClusterProvider.preflight`."""
        ...

    def collect_logs(self, name: str, folder: Path, into: Path) -> None:
        """Copy the logs of the control plane, and others that may explain a failed run, into a folder.

        Raises
        ------
        ClusterError
            If any of them cannot be read.
        """
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Return what a cluster is made of, such as versions, the node image and a digest of its configuration.

        A kept cluster is used again only if all entries are the same; messages name the entries that differ.
        """
        ...

    def create(self, name: str, folder: Path, timeout_s: float) -> None:
        """Make a cluster.

        Raises
        ------
        ClusterError
            If that fails or takes longer than `timeout_s` seconds; the caller then removes the remains with `delete`.
        """
        ...

    def kubeconfig(self, name: str, folder: Path) -> Path:
        """Return the path of the kubeconfig whose current context leads to the cluster."""
        ...

    def delete(self, name: str, folder: Path) -> None:
        """Remove a cluster, complete or half made; do nothing if it does not exist.

        Raises
        ------
        ClusterError
            If something of it is still there.
        """
        ...
