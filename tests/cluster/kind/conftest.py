"""What tests on kind share: the nodes themselves, CARICO deployed on them, and a namespace of their own."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from carico.clock import SystemClock
from carico.variants import DEFAULT_VARIANT
from testbed.clusters.api import ClusterApi, Json
from testbed.clusters.deployed import DeployedCarico
from testbed.clusters.kind import KindMaker
from testbed.clusters.kind_nodes import size_nodes
from testbed.clusters.lifecycle import Cluster
from testbed.clusters.namespaces import namespace_of_run
from testbed.images.docker import Docker
from workloads.commands import command_of
from workloads.scenario import NodePool

POOL = NodePool("node", 2, cores=0.5, memory="1Gi")


@dataclass(frozen=True)
class KindCluster:
    """The session's cluster with CARICO on it, all of its workers small, and a namespace."""

    cluster: Cluster
    maker: KindMaker
    namespace: str

    @property
    def api(self) -> ClusterApi:
        return self.cluster.api

    @property
    def docker(self) -> Docker:
        return self.maker.docker

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes, which are their containers', too."""
        return self.maker.nodes(self.cluster.name)

    @property
    def workers(self) -> list[str]:
        return [node for node in self.nodes if not node.endswith("control-plane")]

    @property
    def control_plane(self) -> str:
        return next(node for node in self.nodes if node.endswith("control-plane"))

    def pi_pod(self, name: str, node: str, digits: int) -> Json:
        """Return a pod that computes pi on one node; no scheduler is asked."""
        container = {
            "name": "pi",
            "image": self.maker.image("workloads").tag,
            "imagePullPolicy": "Never",
            "command": command_of("pi", {"digits": digits}),
        }
        spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
        return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
def kind_cluster(carico_cluster, request) -> Iterator[KindCluster]:
    maker, namespace = KindMaker(), f"carico-test-{zlib.crc32(request.node.nodeid.encode()):x}"
    maker.load(carico_cluster.name, maker.image("workloads").ensure(maker.docker, lambda text: None))
    workers = [node for node in maker.nodes(carico_cluster.name) if not node.endswith("control-plane")]
    size_nodes(maker.docker, carico_cluster.api, workers, dict.fromkeys(workers, POOL))
    DeployedCarico(maker, SystemClock()).deploy(carico_cluster, DEFAULT_VARIANT.name)
    with namespace_of_run(carico_cluster.api, namespace, "test"):
        yield KindCluster(carico_cluster, maker, namespace)
