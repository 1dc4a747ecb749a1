"""Scenarios: a cluster's shape and the jobs that are published to it, read from YAML.

The structs below are the schema; msgspec validates a file against them and names the path of the field that is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta

from workloads.demand import Demand, demand_of
from workloads.errors import InvalidDemand, InvalidQuantity, InvalidScenario, UnknownScenario
from workloads.quantity import memory_bytes, millicpu

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$")]


class Requests(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every pod of a job requests, as Kubernetes quantities."""

    cpu: str | None = None
    memory: str | None = None

    @property
    def millicpu(self) -> int:
        """Thousandths of a core; 0 if nothing is requested."""
        return 0 if self.cpu is None else millicpu(self.cpu)

    @property
    def memory_bytes(self) -> int:
        """Bytes; 0 if nothing is requested."""
        return 0 if self.memory is None else memory_bytes(self.memory)


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Job: so many pods of a workload, published at a time."""

    name: Name
    workload: str
    pods: Count
    parameters: dict[str, float | str] = {}
    requests: Requests = Requests()
    start_s: Annotated[float, Meta(ge=0)] = 0.0
    """When the job is published."""
    placement: Literal["any", "first", "rest"] = "any"
    """Nodes that may run it: any, only the first, or all but the first (node affinity)."""
    disturbance: bool = False
    """A disturbance sets the scene: the run does not wait for it."""
    backoff_limit: Annotated[int, Meta(ge=0)] = 6
    """Failed pods after which the Job gives up (the Kubernetes default)."""

    @property
    def demand(self) -> Demand:
        """What one of its pods consumes."""
        return demand_of(self.workload, self.parameters)


class ClusterShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The workers; the thesis's cluster by default (appendix B.1)."""

    nodes: Count = 19
    cores: Annotated[int, Meta(ge=1, le=1024)] = 4
    memory: str = "8Gi"

    @property
    def memory_bytes(self) -> int:
        """Memory of a node."""
        return memory_bytes(self.memory)


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster and what is published to it."""

    name: Name
    description: str
    jobs: Annotated[list[JobSpec], Meta(min_length=1)]
    cluster: ClusterShape = ClusterShape()
    limit_s: Annotated[float, Meta(gt=0)] = 3600.0
    """A run that takes longer is cut off; what is left then is `unfinished`."""

    def scaled(self, pods: int | None = None, nodes: int | None = None) -> Scenario:
        """Return the scenario with another number of pods or nodes.

        Raises
        ------
        InvalidScenario
            If a number is below 1, or `pods` is given where several jobs would have to share it.
        """
        scenario = self
        if pods is not None:
            measured = [job for job in self.jobs if not job.disturbance]
            if len(measured) != 1:
                names = ", ".join(job.name for job in measured)
                raise InvalidScenario(f"{self.name} has several jobs ({names}): a number of pods does not say whose")
            changed = [
                msgspec.structs.replace(job, pods=pods) if job is measured[0] else job for job in self.jobs
            ]
            scenario = msgspec.structs.replace(scenario, jobs=changed)
        if nodes is not None:
            shape = msgspec.structs.replace(self.cluster, nodes=nodes)
            scenario = msgspec.structs.replace(scenario, cluster=shape)
        return checked(scenario, f"scenario {self.name}")


def checked(scenario: Scenario, origin: str) -> Scenario:
    """Return `scenario` if it makes sense beyond its schema: quantities parse, demands exist, pods can fit a node.

    Raises
    ------
    InvalidScenario
        The message names `origin` and the field.
    """
    try:
        # Values set in code have not been through a decoder yet.
        scenario = msgspec.convert(msgspec.to_builtins(scenario), Scenario)
        memory = scenario.cluster.memory_bytes
        names = [job.name for job in scenario.jobs]
        if len(set(names)) != len(names):
            raise InvalidScenario(f"{origin}: two jobs have the same name: {', '.join(names)}")
        for job in scenario.jobs:
            needed = job.demand.memory_bytes
            if needed > memory or job.requests.memory_bytes > memory:
                raise InvalidScenario(
                    f"{origin}: a pod of job {job.name} uses {needed / 2**20:.0f} MiB and requests "
                    f"{job.requests.memory_bytes / 2**20:.0f} MiB, a node has {memory / 2**20:.0f} MiB: it can never run"
                )
            if job.requests.millicpu > 1000 * scenario.cluster.cores:
                raise InvalidScenario(
                    f"{origin}: job {job.name} requests {job.requests.cpu} CPU, a node has {scenario.cluster.cores}: "
                    f"it can never be scheduled"
                )
            if job.placement == "rest" and scenario.cluster.nodes < 2:
                raise InvalidScenario(f"{origin}: job {job.name} runs on all nodes but the first: 2 nodes are needed")
            if not math.isfinite(job.start_s):
                raise InvalidScenario(f"{origin}: job {job.name}: start_s must be finite, got {job.start_s}")
    except (msgspec.ValidationError, InvalidQuantity, InvalidDemand) as error:
        raise InvalidScenario(f"{origin}: {error}") from error
    return scenario


def read_scenario(text: str, origin: str) -> Scenario:
    """Return the scenario that a YAML text describes.

    Raises
    ------
    InvalidScenario
        If it is no YAML or not what the schema says; the message names `origin` and the field.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidScenario(f"{origin} is no YAML: {' '.join(str(error).split())}") from error
    try:
        scenario = msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        raise InvalidScenario(f"{origin}: {error}") from error
    return checked(scenario, origin)


def load_scenario(name_or_path: str) -> Scenario:
    """Return a scenario of the catalogue by its name, or one from a file (a path that ends in .yaml or .yml).

    Raises
    ------
    UnknownScenario
        If there is none; the message lists the catalogue.
    InvalidScenario
        If the file is not what the schema says.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UnknownScenario(f"cannot read the scenario {path}: {error}") from error
        return read_scenario(text, str(path))
    for known in _catalogue_files():
        if known.name == f"{name_or_path}.yaml":
            return read_scenario(known.read_text(encoding="utf-8"), known.name)
    names = ", ".join(sorted(file.name.removesuffix(".yaml") for file in _catalogue_files()))
    raise UnknownScenario(f"no scenario is named {name_or_path!r}; known: {names}; or give a path that ends in .yaml")


def catalogue() -> list[Scenario]:
    """Return all scenarios of the catalogue, by name."""
    files = sorted(_catalogue_files(), key=lambda file: file.name)
    return [read_scenario(file.read_text(encoding="utf-8"), file.name) for file in files]


def _catalogue_files() -> Iterable[resources.abc.Traversable]:
    folder = resources.files("workloads") / "catalogue"
    return [file for file in folder.iterdir() if file.name.endswith(".yaml")]
