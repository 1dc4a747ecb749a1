"""The protocol of what makes real clusters of one kind: kwok, later kind, Xen guests, or somebody's own.

A maker knows its programs and nothing else: no session, no scenario, no owner. When a cluster is made, used again or
removed is decided in `testbed.clusters.lifecycle`; what runs on it, over its API, in `testbed.clusters.real`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from testbed.clusters.api import ClusterApi
from testbed.requirements import Problem
from workloads.scenario import ClusterShape, JobSpec, Scenario


class ClusterMaker(Protocol):
    """Makes, describes and removes clusters of one kind.

    Everything of a cluster that is not in its own API lies in the folder that is passed in, which is empty before
    `create`. A cluster is known by a name that begins with `carico-`; what does not bear it is never touched.
    """

    kind: str
    """The provider's name, for example "kwok"."""

    @property
    def kubernetes_version(self) -> str:
        """The version that its clusters run, for example "v1.34.4"."""
        ...

    def preflight(self) -> Sequence[Problem]:
        """Return what is missing to make one; see `ClusterProvider.preflight`."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Return what a cluster is made of, for example versions, the node image, a digest of its configuration.

        A kept cluster is used again only if all of it is the same; the names of what differs are told.
        """
        ...

    def create(self, name: str, folder: Path, deadline_s: float) -> Path:
        """Make a cluster and return its kubeconfig, which lies in the folder; its API answers then.

        Raises
        ------
        ClusterError
            If that fails or takes longer than `deadline_s` seconds. What is there by then is removed with `delete`.
        """
        ...

    def delete(self, name: str, folder: Path) -> None:
        """Remove a cluster, a half-made one, too; one that is not there is none to remove.

        Raises
        ------
        ClusterError
            If something of it is still there.
        """
        ...

    def collect_logs(self, name: str, folder: Path, into: Path) -> None:
        """Copy the logs of the control plane, and of what else may tell why a run failed, into a folder.

        Raises
        ------
        ClusterError
            If there are none; who collects goes on.
        """
        ...

    def check(self, scenario: Scenario) -> None:
        """Check, before a cluster is made, that it can have this shape and run these jobs.

        Raises
        ------
        UsageError
            If not.
        """
        ...

    def shape(self, api: ClusterApi, shape: ClusterShape) -> None:
        """Give the cluster the nodes of a scenario, by their names there, and wait until they are ready.

        Raises
        ------
        ClusterError
            If they are not in time.
        """
        ...

    def pods(self, job: JobSpec, work: Sequence[float], shape: ClusterShape) -> Mapping[str, Any]:
        """Return the pod template of a job: `metadata` (annotations) and `spec` with its container.

        Requests, scheduler, labels and placement are put in by who publishes it.

        Parameters
        ----------
        job : JobSpec
        work : sequence of float
            CPU-seconds of its pods, by completion index.
        shape : ClusterShape
        """
        ...
