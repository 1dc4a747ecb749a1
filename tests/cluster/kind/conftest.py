"""Fixtures of tests on kind: the cluster's nodes with CARICO deployed on them, and a namespace for each test."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from carico.clock import SystemClock
from carico.model.variants import DEFAULT_VARIANT
from testbed.images.docker import Docker
from testbed.plugin.state import state_of
from testbed.real.api import ClusterApi, Json
from testbed.real.carico import DeployedCarico
from testbed.real.kind.maker import KindMaker
from testbed.real.kind.nodes import size_nodes
from testbed.real.lifecycle import Cluster
from workloads.commands import command_of
from workloads.scenario import NodePool

POOL = NodePool("node", 2, cores=0.5, memory="1Gi")


@dataclass(frozen=True)
class KindCluster:
    """The session's cluster with small workers and CARICO, and the test's namespace."""

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
        """Names of all nodes, which are also the names of their containers."""
        return self.maker.nodes(self.cluster.name)

    @property
    def workers(self) -> list[str]:
        return [node for node in self.nodes if not node.endswith("control-plane")]

    @property
    def control_plane(self) -> str:
        return next(node for node in self.nodes if node.endswith("control-plane"))

    def pi_pod(self, name: str, node: str, digits: int) -> Json:
        """Return a pod that computes pi on a given node, without a scheduler."""
        container = {
            "name": "pi",
            "image": self.maker.image("workloads").tag,
            "imagePullPolicy": "Never",
            "command": command_of("pi", {"digits": digits}),
        }
        spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
        return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="session")
def kind_maker(pytestconfig) -> KindMaker:
    """The maker of clusters with the session's options."""
    options = state_of(pytestconfig).options
    return KindMaker(options.cluster["workers"], options.cluster["node_image"], options.cluster["pytest_kind"])


@pytest.fixture
def kind_cluster(carico_cluster, carico_namespace, kind_maker) -> KindCluster:
    image = kind_maker.image("workloads").ensure(kind_maker.docker, lambda text: None)
    kind_maker.load(carico_cluster.name, image)
    found = KindCluster(carico_cluster, kind_maker, carico_namespace)
    size_nodes(found.docker, found.api, found.workers, dict.fromkeys(found.workers, POOL))
    DeployedCarico(kind_maker, SystemClock()).deploy(carico_cluster, DEFAULT_VARIANT.name)
    return found
