"""Fixtures of tests on KWOK: the session's cluster with a namespace for each test and the nodes that the test needs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from testbed.real.api import ClusterApi
from testbed.real.jobs import quantities
from testbed.real.kwok.platform import fake_pod_spec, shape_nodes
from testbed.real.lifecycle import Cluster
from testbed.real.waiting import wait_until
from workloads.scenario import ClusterShape, Requests

BOUND_TIMEOUT_S = 60.0
POLL_S = 0.01


@dataclass(frozen=True)
class KwokCluster:
    """The session's cluster, and the test's namespace."""

    cluster: Cluster
    namespace: str

    @property
    def api(self) -> ClusterApi:
        return self.cluster.api

    def shape(self, shape: ClusterShape) -> None:
        """Give the cluster the nodes of a shape."""
        shape_nodes(self.api, shape)

    def submit(self, name: str, requests: Requests) -> float:
        """Create a pod that runs until it is deleted, and return the time of its creation on the monotonic clock."""
        spec = fake_pod_spec()
        spec["containers"][0]["resources"] = {"requests": quantities(requests)}
        self.api.create_pod(self.namespace, {"metadata": {"name": name}, "spec": spec})
        return time.monotonic()

    def delete(self, name: str) -> None:
        """Begin to remove a pod."""
        metadata = {"name": name, "namespace": self.namespace}
        self.api.objects.delete({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod."""
        return next(pod for pod in self.api.pods_in(self.namespace).list()[0] if pod["metadata"]["name"] == name)

    def node_of(self, name: str) -> str:
        """Wait until a pod is bound and return its node."""
        self.wait_until_bound(name)
        return str(self.pod(name)["spec"]["nodeName"])

    def wait_until_bound(self, name: str) -> float:
        """Wait until a pod is bound and return that time on the monotonic clock, at most `POLL_S` late."""

        def lacking() -> str:
            pod = self.pod(name)
            return "" if pod["spec"].get("nodeName") else str(pod["status"].get("conditions", "not tried yet"))

        wait_until(f"pod {name} is bound", lacking, BOUND_TIMEOUT_S, POLL_S)
        return time.monotonic()

    def wait_until_refused(self, name: str) -> float:
        """Wait until a pod is Unschedulable and return that time on the monotonic clock, at most `POLL_S` late."""

        def lacking() -> str:
            conditions = self.pod(name)["status"].get("conditions", [])
            return "" if any(one.get("reason") == "Unschedulable" for one in conditions) else str(conditions)

        wait_until(f"pod {name} is refused", lacking, BOUND_TIMEOUT_S, POLL_S)
        return time.monotonic()


@pytest.fixture
def kwok_cluster(carico_cluster, carico_namespace) -> KwokCluster:
    return KwokCluster(carico_cluster, carico_namespace)
