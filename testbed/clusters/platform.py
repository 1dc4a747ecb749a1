"""The protocol of what pods find on a real cluster: the nodes a scenario asks for, and what its pods are made of.

Fake nodes do no work and pods end when they are told to; containers run the workloads themselves. Not here: where the
cluster comes from (`testbed.clusters.maker`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from testbed.clusters.lifecycle import Cluster
from workloads.scenario import JobSpec, Scenario


class Platform(Protocol):
    """Nodes and pods of one kind of cluster."""

    def check(self, scenario: Scenario) -> None:
        """Check, before there is a cluster, that it can have this shape and run these jobs.

        Raises
        ------
        UsageError
            If not.
        """
        ...

    def prepare(self, cluster: Cluster, scenario: Scenario) -> Mapping[str, str]:
        """Give the cluster the nodes of a scenario, all ready when it returns, and what its pods are started from.

        Returns
        -------
        mapping of str to str
            What the scenario calls a node, by the node's name.

        Raises
        ------
        ClusterError
            If they are not in time.
        KubeError
            If the API server does not answer, or refuses.
        """
        ...

    def template(self, job: JobSpec, work: Sequence[float], scenario: Scenario) -> dict[str, Any]:
        """Return the pod template of a job as the API's JSON: its container, and annotations if it needs any.

        Name, labels, requests, scheduler and placement are put in by who publishes it.

        Parameters
        ----------
        job : JobSpec
        work : sequence of float
            CPU-seconds of its pods, by completion index.
        scenario : Scenario
        """
        ...
