"""Makes clusters with kind: the nodes are containers on this machine, and run real pods."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from testbed.errors import ClusterError, DockerFailed, TestbedError
from testbed.experiment.free_resources import FREE_CPUS, shortages
from testbed.images.catalogue import Catalogue
from testbed.images.docker import Docker
from testbed.images.image import Image
from testbed.images.node_image import VERSION_LABEL
from testbed.images.programs import Programs
from testbed.images.python_image import PUBLISHED_BASE
from testbed.programs.find import PROGRAMS_VARIABLE, found_programs, version_of
from testbed.programs.run import run_program
from testbed.real.kind.config import kind_config
from testbed.real.kind.inotify import free_instances
from testbed.real.lifecycle import Cluster
from testbed.real.maker import CREATE_TIMEOUT_S
from testbed.requirements import Problem
from testbed.user_cache import user_cache

PUBLISHED_NODE = "docker.io/kindest/node:v1.34.0"
"""The default of kind 0.30; used where no node image was built on this machine."""
NEEDED_BYTES = 2 << 30
"""Measured: a control plane and two workers take 1.2 GiB when idle."""
_INSTANCES_OF_NODE = 15
"""inotify instances of a worker; a control plane needs twice as many (measured: 14 and 28). With fewer, the kubelet
does not start: kind waits for it for four minutes, and only the node's own journal says why."""
_DELETE_TIMEOUT_S = 120.0
_LOGS_TIMEOUT_S = 30.0
"""Limit of each call of Docker that collects logs."""
_ALL_LOGS_TIMEOUT_S = 60.0
_LOAD_TIMEOUT_S = 300.0


class KindMaker:
    """A `ClusterMaker` that calls kind.

    Parameters
    ----------
    workers : int
        Nodes beside the control plane.
    node_image : str, optional
        By default the one that `carico-testbed images build` has made, else the published one.
    pytest_kind : bool
        Whether to make clusters through pytest-kind instead of kind's own command.
    docker : Docker, optional
    environment : mapping, optional
        Environment variables; the process's by default.
    """

    kind = "kind"
    on_this_machine = True
    create_timeout_s = CREATE_TIMEOUT_S

    def __init__(
        self,
        workers: int = 2,
        node_image: str | None = None,
        pytest_kind: bool = False,
        docker: Docker | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.workers = workers
        self.docker = Docker() if docker is None else docker
        self._node_image = node_image
        self._pytest_kind = pytest_kind
        self._environment = dict(os.environ if environment is None else environment)
        self._images: dict[str, Image] = {}
        self._provided: dict[tuple[str, str], str] = {}

    @property
    def kubernetes_version(self) -> str:
        """The version in the node image's label, else in its tag; see `ClusterMaker`."""
        return self._label or self.node_image.rpartition(":")[2].partition("@")[0]

    def preflight(self) -> Sequence[Problem]:
        """Check kind, Docker, the node image, memory, CPU and limits; see `ClusterMaker.preflight`."""
        found = []
        if "kind" not in self._programs:
            found.append(
                Problem(
                    "there is no kind",
                    f"carico-testbed images programs kind, or name its folder with {PROGRAMS_VARIABLE}",
                )
            )
        if self._pytest_kind and find_spec("pytest_kind") is None:
            found.append(Problem("there is no pytest-kind", "pip install 'carico-testbed[kind]'"))
        if self._pytest_kind and "kubectl" not in self._programs:
            found.append(Problem("pytest-kind needs kubectl", "carico-testbed images programs kubernetes"))
        try:
            self.docker.version()
            if self._node_image is not None and self._node_image.startswith("carico.local/") and not self._is_there:
                found.append(Problem(f"there is no image {self._node_image}", "carico-testbed images build node"))
        except TestbedError as error:
            found.append(Problem(str(error)))
        found += shortages("kind", NEEDED_BYTES, FREE_CPUS)
        limit = _setting("fs/inotify/max_user_instances")
        if limit is not None and limit < self._needed_instances:
            found.append(
                Problem(
                    f"fs.inotify.max_user_instances is {limit}, nodes need {self._needed_instances}",
                    "sysctl fs.inotify.max_user_instances=1024",
                )
            )
        return found

    def fingerprint(self) -> Mapping[str, str]:
        """Return versions, node image and configuration; see `ClusterMaker.fingerprint`."""
        return {
            "kind": version_of(self._programs["kind"]),
            "made-by": f"pytest-kind {metadata.version('pytest-kind')}" if self._pytest_kind else "kind",
            "node-image": self.node_image,
            "workers": str(self.workers),
            "configuration": hashlib.sha256(self._config.encode()).hexdigest()[:16],
        }

    def create(self, name: str, folder: Path, timeout_s: float) -> None:
        """Run kind to make the cluster; see `ClusterMaker.create`."""
        free = free_instances(self._needed_instances)
        if free < self._needed_instances:
            raise ClusterError(
                f"nodes need {self._needed_instances} inotify instances, {free} are free: remove other clusters, "
                f"or raise the limit: sysctl fs.inotify.max_user_instances=1024"
            )
        config = folder / "kind.yaml"
        config.write_text(self._config, encoding="utf-8")
        kubeconfig = self.kubeconfig(name, folder)
        if self._pytest_kind:
            tools = (self._programs["kind"], self._programs["kubectl"])
            module = "testbed.real.kind.pytest_kind_cluster"
            command: list[str | Path] = [
                sys.executable,
                "-m",
                module,
                name,
                self.node_image,
                config,
                kubeconfig,
                *tools,
            ]
        else:
            where = ("--name", name, "--kubeconfig", kubeconfig)
            # --retain: a half-made cluster stays until its logs have been read and `delete` removes it.
            options = ("--config", config, "--image", self.node_image, "--retain")
            command = [self._kind, "create", "cluster", *where, *options]
        try:
            run_program(command, timeout_s, self._environment, folder)
        except ClusterError as error:
            if self._label is None and not self._is_there:
                error.add_note("where no image can be pulled, build one: carico-testbed images build node")
            raise

    def kubeconfig(self, name: str, folder: Path) -> Path:
        """See `ClusterMaker.kubeconfig`."""
        return folder / "kubeconfig"

    def delete(self, name: str, folder: Path) -> None:
        """Remove the nodes' containers; see `ClusterMaker.delete`."""
        where = ("--name", name, "--kubeconfig", self.kubeconfig(name, folder))
        run_program([self._kind, "delete", "cluster", *where], _DELETE_TIMEOUT_S, self._environment)

    def collect_logs(self, name: str, folder: Path, into: Path) -> None:
        """Copy the nodes' output, journals and pod logs; see `ClusterMaker.collect_logs`."""
        lacking = []
        end = time.monotonic() + _ALL_LOGS_TIMEOUT_S

        def output(*command: str) -> str:
            try:
                return self.docker.call(*command, limit_s=min(_LOGS_TIMEOUT_S, max(end - time.monotonic(), 1.0)))
            except DockerFailed as error:
                lacking.append(str(error))
                return ""

        try:
            for node in self.nodes(name):
                here = into / "logs" / node
                here.mkdir(parents=True, exist_ok=True)
                # This is the only log of a node that has ended.
                (here / "console.log").write_text(output("logs", node), encoding="utf-8")
                (here / "journal.log").write_text(output("exec", node, "journalctl", "--no-pager"), encoding="utf-8")
                output("cp", f"{node}:/var/log/pods", str(here))
        except OSError as error:
            lacking.append(str(error))
        if lacking:
            raise ClusterError(f"not all logs of {name} can be copied: {'; '.join(lacking)}")

    def nodes(self, name: str) -> list[str]:
        """Return the names of a cluster's containers, in kind's order; raises DockerFailed."""
        label = f"label=io.x-k8s.kind.cluster={name}"
        command = ("ps", "--all", "--filter", label, "--format", "{{.Names}}")
        names = self.docker.call(*command, limit_s=_LOGS_TIMEOUT_S).split()
        return sorted(names, key=lambda node: (len(node), node))

    def load(self, name: str, image: str) -> None:
        """Copy an image from the local daemon to all nodes that do not have it.

        Raises
        ------
        ClusterError, DockerFailed
            If that fails.
        """
        # kind's own check does not recognise images that were built here, and would pack them every time.
        lacking = [node for node in self.nodes(name) if image not in self._images_of(node)]
        if lacking:
            where = ("--name", name, "--nodes", ",".join(lacking))
            run_program([self._kind, "load", "docker-image", image, *where], _LOAD_TIMEOUT_S, self._environment)

    def provided_image(self, cluster: Cluster, name: str) -> str:
        """Build an image if need be, and copy it to the nodes; see `Machines`."""
        if (cluster.name, name) not in self._provided:
            image = self.image(name).ensure(self.docker, lambda text: None)
            self.load(cluster.name, image)
            self._provided[cluster.name, name] = image
        return self._provided[cluster.name, name]

    def run_on_nodes(self, cluster: Cluster, *command: str) -> None:
        """See `Machines`."""
        for node in self.nodes(cluster.name):
            self.docker.call("exec", node, *command)

    def _images_of(self, node: str) -> list[str]:
        listing = ("ctr", "--namespace=k8s.io", "images", "list", "--quiet")
        return self.docker.call("exec", node, *listing, limit_s=_LOGS_TIMEOUT_S).split()

    @cached_property
    def node_image(self) -> str:
        """The image of the nodes; raises TestbedError if Docker does not answer."""
        if self._node_image is not None:
            return self._node_image
        try:
            built = self.catalogue.image("node").tag
        except TestbedError:  # no Go, or no mirror: nothing was built here
            return PUBLISHED_NODE
        return built if self.docker.has(built) else PUBLISHED_NODE

    @cached_property
    def catalogue(self) -> Catalogue:
        """The images that can be built here."""
        return Catalogue(self.docker, Programs(user_cache()))

    def image(self, name: str) -> Image:
        """Return an image for pods: on a base that is built here if the nodes' image is, or else on a published one.

        It stays the same for the whole session, even if its source files change: the nodes have only that image.
        """
        if name not in self._images:
            self._images[name] = self.catalogue.image(name, PUBLISHED_BASE if self._label is None else None)
        return self._images[name]

    @property
    def _needed_instances(self) -> int:
        return _INSTANCES_OF_NODE * (2 + self.workers)

    @cached_property
    def _label(self) -> str | None:
        return (self.docker.label(self.node_image, VERSION_LABEL) or None) if self._is_there else None

    @property
    def _is_there(self) -> bool:
        return self.docker.has(self.node_image)

    @cached_property
    def _config(self) -> str:
        version = int(json.loads(self.docker.call("info", "--format", "{{json .CgroupVersion}}")) or 1)
        return kind_config(self.workers, self._label is not None, version)

    @cached_property
    def _programs(self) -> dict[str, Path]:
        return found_programs(("kind", "kubectl"), self._environment)

    @property
    def _kind(self) -> Path:
        if "kind" not in self._programs:
            raise ClusterError("there is no kind: build it with carico-testbed images programs kind")
        return self._programs["kind"]


def _setting(name: str) -> int | None:
    """Return a setting of the kernel; None if it cannot be read."""
    try:
        return int(Path("/proc/sys", name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
