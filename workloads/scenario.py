"""Scenarios: a cluster's shape and the jobs that are published to it, read from YAML.

The structs below are the schema, which files are validated against. What a schema cannot say is checked afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import yaml
from msgspec import Meta

from workloads.arrivals import Arrivals, Burst, Trace
from workloads.demand import Demand, demand_of
from workloads.errors import InvalidScenario, Key, UnknownScenario, WorkloadError, did_you_mean, shown, suggested
from workloads.fitting import fitted
from workloads.quantity import memory_bytes, millicpu
from workloads.yaml_places import placed

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
# A whole number stays one: results say 4, not 4.0.
Cores = Annotated[int, Meta(ge=1, le=1024)] | Annotated[float, Meta(ge=0.1, le=1024)]
"""CPUs of a node; a fraction is a quota of a shared machine's CPUs, as a control group has."""
MAX_PODS = 110
"""The kubelet's default."""
DiskKind = Literal["hdd", "ssd"]
"""A disk that serves one stream of reads at its full speed, or several."""
# `$` alone would accept a final line break.
Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$(?!\n)",
        extra={"wanted": "a name of 1 to 50 small letters, digits and inner hyphens"},
    ),
]


class Requests(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every pod of a job requests, as Kubernetes quantities; plain numbers are allowed (`cpu: 1`)."""

    cpu: str | int | float | None = None
    memory: str | int | float | None = None

    @property
    def millicpu(self) -> int:
        """Thousandths of a core; 0 if nothing is requested."""
        return 0 if self.cpu is None else millicpu(str(self.cpu))

    @property
    def memory_bytes(self) -> int:
        """Bytes; 0 if nothing is requested."""
        return 0 if self.memory is None else memory_bytes(str(self.memory))


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Job: a number of pods of one workload, published together."""

    name: Name
    workload: str
    pods: Count
    parameters: dict[str, float | str] = {}
    requests: Requests = Requests()
    start_s: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    """When the job is published."""
    arrivals: Arrivals = Burst()
    """When its pods arrive after the publication: all at once, or in a pattern."""
    placement: Literal["any", "first", "rest"] = "any"
    """Nodes that may run it: any, only the first, or all but the first (node affinity)."""
    disturbance: bool = False
    """Whether the job is only background for the others: the run does not wait for it."""
    platform: bool = False
    """Whether its pods are the platform's, like those of DaemonSets and of kube-system: neither CARICO's agents nor the
    results count them among the running pods of a node."""
    latency_critical: bool = False
    """Whether its pods answer requests and are labelled so: the variant `demand` leaves their nodes half idle."""
    backoff_limit: Annotated[int, Meta(ge=0, le=1_000_000)] = 6
    """Failed pods after which the Job gives up (the Kubernetes default)."""
    parallelism: Count | None = None
    """The most pods that the Job has at the same time; all of them by default."""
    on_oom_kill: Literal["count", "ignore", "fail-job"] = "count"
    """The Job's pod failure policy for pods that were killed for memory: they count towards the limit, are replaced
    without counting, or fail the Job at once."""
    on_disruption: Literal["count", "ignore"] = "count"
    """The pod failure policy for pods that were lost with their node or evicted from it."""
    priority: Annotated[int, Meta(ge=-1_000_000_000, le=1_000_000_000)] = 0
    """Pods of a higher priority are scheduled first; no pod is evicted for them."""
    work: list[Annotated[float, Meta(gt=0, le=1_000_000)]] = []
    """Relative work of each pod, in the order of arrival; all the same by default."""

    @property
    def has_failure_policy(self) -> bool:
        """Whether the Job has a pod failure policy: some failures do not simply count."""
        return (self.on_oom_kill, self.on_disruption) != ("count", "count")

    @property
    def demand(self) -> Demand:
        """What one of its pods consumes."""
        return demand_of(self.workload, self.parameters)

    def draw_work(self, rng: np.random.Generator) -> list[float]:
        """Return the work of each of its pods in the order of arrival, CPU-seconds."""
        drawn = self.demand.draw_work(self.pods, rng)
        return [mean * relative for mean, relative in zip(drawn, self.work, strict=False)] if self.work else drawn


class NodePool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Worker nodes that are alike."""

    name: Name
    nodes: Count
    cores: Cores = 4
    memory: str = "8Gi"
    speed: Annotated[float, Meta(gt=0, le=100)] = 1.0
    """Speed of a core, relative to the thesis's nodes, whose CPU-seconds the demand models count."""
    max_pods: Count = MAX_PODS
    disk: DiskKind | None = None
    """The kind of disk that jobs read from; None if no job reads."""

    @property
    def memory_bytes(self) -> int:
        """Memory of a node."""
        return memory_bytes(self.memory)


class ClusterShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The worker nodes; by default those of the thesis's cluster (appendix B.1)."""

    nodes: Count = 19
    cores: Cores = 4
    memory: str = "8Gi"
    max_pods: Count = MAX_PODS
    """The most pods that a node takes (the kubelet's default)."""
    disk: DiskKind | None = None
    """The kind of disk that jobs read from; None if no job reads."""
    pools: list[NodePool] = []
    """Nodes that differ, pool by pool, in place of the five fields above."""

    @property
    def each_pool(self) -> list[NodePool]:
        """The pools; a single pool if all nodes are alike."""
        return self.pools or [
            NodePool("node", self.nodes, self.cores, self.memory, max_pods=self.max_pods, disk=self.disk)
        ]

    @property
    def each_node(self) -> list[NodePool]:
        """Every node's pool, in the order of the nodes."""
        return [pool for pool in self.each_pool for _ in range(pool.nodes)]

    @property
    def node_names(self) -> list[str]:
        """The name of every node: its pool's and a number."""
        return [
            f"{pool.name}-{index:0{len(str(pool.nodes - 1))}d}"
            for pool in self.each_pool
            for index in range(pool.nodes)
        ]


class NodeChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to a node while the scenario runs.

    A node whose first change is `added` does not exist before. `removed` evicts its pods; `failed` kills them, which
    the control plane infers from the node's silence; `recovered` brings a failed node back, restarted.
    """

    at_s: Annotated[float, Meta(ge=0, le=1_000_000)]
    node: str
    """Its name, for example node-03."""
    change: Literal["added", "removed", "failed", "recovered"]


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster and what is published to it."""

    name: Name
    description: str
    jobs: Annotated[list[JobSpec], Meta(min_length=1)]
    cluster: ClusterShape = ClusterShape()
    node_changes: list[NodeChange] = []
    limit_s: Annotated[float, Meta(gt=0, le=1_000_000)] = 3600.0
    """A run that takes longer is cut off; its remaining pods are `unfinished`."""

    def scaled(self, pods: int | None = None, nodes: int | None = None) -> Scenario:
        """Return the scenario with a different number of pods or nodes.

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
                raise InvalidScenario(
                    f"{self.name} has several jobs ({names}), so a number of pods is ambiguous; "
                    f"for other sizes describe the scenario in a .yaml file of your own"
                )
            changed = [msgspec.structs.replace(job, pods=pods) if job is measured[0] else job for job in self.jobs]
            scenario = msgspec.structs.replace(scenario, jobs=changed)
        if nodes is not None:
            if self.cluster.pools:
                raise InvalidScenario(f"{self.name} has pools of nodes, so a number of nodes is ambiguous")
            shape = msgspec.structs.replace(self.cluster, nodes=nodes)
            scenario = msgspec.structs.replace(scenario, cluster=shape)
        return checked(scenario, f"scenario {self.name}")


def checked(scenario: Scenario, origin: str) -> Scenario:
    """Return `scenario` if it is valid beyond its schema: quantities parse, workloads exist, names differ.

    Raises
    ------
    InvalidScenario
        The message names `origin` and the field.
    """
    try:
        # Values that were set in code have not been validated by a decoder yet.
        scenario = fitted(msgspec.to_builtins(scenario), Scenario)
        _check(scenario)
    except WorkloadError as error:
        raise InvalidScenario(f"{origin}: {error}", *error.path) from error
    return scenario


@contextmanager
def _within(whose: str, *path: Key) -> Iterator[None]:
    """Put whose value it is before the message of an error, and where that is before its path."""
    try:
        yield
    except WorkloadError as error:
        raise InvalidScenario(f"{whose}{error}", *path, *error.path) from error


def _check(scenario: Scenario) -> None:
    """Refuse what a schema cannot: the path of the error leads to the value."""
    with _within("", "cluster"):
        _check_shape(scenario.cluster)
    with _within("", "node_changes"):
        _check_changes(scenario.node_changes, scenario.cluster.node_names, scenario.limit_s)
    _check_differ("jobs", [job.name for job in scenario.jobs])
    if all(job.disturbance for job in scenario.jobs):
        raise InvalidScenario("every job is a disturbance: there is none to wait for and to measure", "jobs")
    for index, job in enumerate(scenario.jobs):
        with _within(f"job {job.name}", "jobs", index):
            if job.start_s >= scenario.limit_s:
                raise InvalidScenario(
                    f" is published at {job.start_s:g} s, when the run is over: limit_s is {scenario.limit_s:g}",
                    "start_s",
                )
            with _within(": "):
                _check_job(job, scenario.cluster)


def _check_differ(field: str, names: list[str]) -> None:
    """Refuse two of the same name in a list."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            problem = f"two {field} have the same name: {name}; give one of them another"
            raise InvalidScenario(problem, field, index, "name")
        seen.add(name)


def _check_shape(shape: ClusterShape) -> None:
    for index, pool in enumerate(shape.each_pool):
        with _within("the memory of a node: ", *(("pools", index) if shape.pools else ()), "memory"):
            _ = pool.memory_bytes
    _check_differ("pools", [pool.name for pool in shape.pools])
    default = ClusterShape()
    own = [
        name
        for name in ("nodes", "cores", "memory", "max_pods", "disk")
        if getattr(shape, name) != getattr(default, name)
    ]
    if shape.pools and own:
        raise InvalidScenario(
            "a cluster has pools, or nodes, cores, memory, max_pods and disk of its own, not both", own[0]
        )


AFTER = {"added": ("absent",), "removed": ("up", "down"), "failed": ("up",), "recovered": ("down",)}
"""The states that a node may be in before a change."""
BECOMES = {"added": "up", "removed": "absent", "failed": "down", "recovered": "up"}
"""The state that a node is in after a change."""


def _check_changes(changes: list[NodeChange], names: list[str], limit_s: float) -> None:
    """Refuse changes of unknown nodes, after the end, or of a node in the wrong state: only failed nodes recover."""
    state: dict[str, str] = {}
    known = set(names)
    seen: set[tuple[str, float]] = set()
    for index, change in sorted(enumerate(changes), key=lambda one: one[1].at_s):
        if (change.node, change.at_s) in seen:
            raise InvalidScenario(
                f"a node changes twice at the same time, {change.node} at {change.at_s:g} s: give one of the two "
                f"changes another at_s",
                index,
                "at_s",
            )
        seen.add((change.node, change.at_s))
        if change.node not in known:
            raise InvalidScenario(
                f"no node is named {change.node!r}: they are {names[0]} to {names[-1]}", index, "node"
            )
        if change.at_s >= limit_s:
            raise InvalidScenario(
                f"{change.node} is {change.change} at {change.at_s:g} s, when the run is over: limit_s is {limit_s:g}",
                index,
                "at_s",
            )
        before = state.get(change.node, "absent" if change.change == "added" else "up")
        if before not in AFTER[change.change]:
            raise InvalidScenario(
                f"{change.node} cannot be {change.change} at {change.at_s:g} s: it is {before} then", index, "change"
            )
        state[change.node] = BECOMES[change.change]


def _check_job(job: JobSpec, cluster: ClusterShape) -> None:
    """Refuse a job that no cluster can run; provider and scheduler check whether its pods fit a node."""
    demand = job.demand
    with _within("", "requests", "cpu"):
        _ = job.requests.millicpu
    with _within("", "requests", "memory"):
        _ = job.requests.memory_bytes
    if isinstance(job.arrivals, Trace) and len(job.arrivals.at_s) < job.pods:
        raise InvalidScenario(
            f"{job.pods} pods need as many arrival times, at_s has {len(job.arrivals.at_s)}", "arrivals", "at_s"
        )
    if job.work and len(job.work) < job.pods:
        raise InvalidScenario(
            f"{job.pods} pods need as many numbers of relative work, work has {len(job.work)}", "work"
        )
    if job.work and math.isinf(demand.cpu_seconds):
        raise InvalidScenario(
            f"workload {job.workload} runs for a time, not until work is done: leave work out", "work"
        )
    if demand.read_bytes:
        without = [pool.name for pool in cluster.each_pool if pool.disk is None]
        if without:
            raise InvalidScenario(
                f"it reads from a disk, and these nodes have none: {', '.join(without)}; give the cluster, or each of "
                f"its pools, a disk: hdd or ssd",
                "parameters",
                "reads",
            )
    if job.placement == "rest" and len(cluster.each_node) < 2:
        raise InvalidScenario("it runs on all nodes but the first: 2 nodes are needed", "placement")


_MOST_ALIASED = 100_000
"""The most values that the aliases of a file may stand for, in all."""


class _StrictLoader(yaml.SafeLoader):
    """Refuses equal keys in a mapping, as YAML demands (PyYAML would silently take the last one), and too many aliases.

    With aliases of aliases, a few hundred bytes can stand for billions of values. Every error has a line.
    """

    _aliased = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Read a value; raises MarkedYAMLError if aliases stand for too many values."""
        alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if alias and node is not None:
            self._count(node)
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        """Read a scalar; raises MarkedYAMLError for half of a pair of surrogates, which no results file can hold."""
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if any("\ud800" <= each <= "\udfff" for each in node.value):
            problem = f"half of a pair of surrogates is no character: {shown(node.value)}"
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark)
        return node

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: yaml.Mark) -> list[str]:
        """Read a part of a text in quotes; raises MarkedYAMLError also for an escape beyond Unicode."""
        try:
            found: list[str] = super().scan_flow_scalar_non_spaces(double, start_mark)
        except (ValueError, OverflowError) as error:
            raise yaml.MarkedYAMLError(None, None, "an escape stands for no character", start_mark) from error
        return found

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make a value; raises MarkedYAMLError also for a text that does not have its type, such as 2024-13-01."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            raise yaml.MarkedYAMLError(None, None, str(error), node.start_mark) from error
        except (LookupError, AttributeError, TypeError) as error:  # how PyYAML fails at `!!int ""`, `!!bool maybe`
            problem = f"{shown(node.value)} does not have the type {node.tag!r}"
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark) from error

    def _count(self, node: yaml.Node) -> None:
        self._aliased += 1
        if self._aliased > _MOST_ALIASED:
            problem = f"aliases stand for more than {_MOST_ALIASED} values, write some of them out"
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark)
        if isinstance(node, yaml.CollectionNode):
            for part in node.value:
                for each in part if isinstance(part, tuple) else (part,):
                    self._count(each)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Read a mapping; raises MarkedYAMLError if it has a key twice."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(None, None, f"the key {key.value!r} occurs twice", key.start_mark)
                seen.add(key.value)
        return node


def read_scenario(text: str, origin: str) -> Scenario:
    """Return the scenario that a YAML text describes.

    Raises
    ------
    InvalidScenario
        If the text is not YAML or not what the schema says; the message names `origin`, the line and the field.
    """
    try:
        document = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        problem = " ".join(str(error).split()).replace(' in "<unicode string>"', "")
        raise InvalidScenario(f"{origin} is not YAML: {problem}") from error
    if document is None:
        raise InvalidScenario(f"{origin} is empty: a scenario has at least a name, a description and jobs")
    try:
        scenario: Scenario = fitted(document, Scenario)
        _check(scenario)
    except WorkloadError as error:
        raise InvalidScenario(f"{origin}, {placed(error, text, _StrictLoader)}", *error.path) from error
    return scenario


def load_scenario(name_or_path: str) -> Scenario:
    """Return a scenario of the catalogue by its name, or one from a file (a path that ends in .yaml or .yml).

    Raises
    ------
    UnknownScenario
        If there is no such scenario; the message lists the catalogue.
    InvalidScenario
        If the file is not what the schema says.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            meant = did_you_mean(path.name, [file.name for file in path.parent.glob("*.y*ml")])
            raise UnknownScenario(f"cannot read the scenario {path}: there is no such file{meant}") from error
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UnknownScenario(f"cannot read the scenario {path}: {why}") from error
        return read_scenario(text, str(path))
    for known in _catalogue_files():
        if known.name == f"{name_or_path}.yaml":
            return read_scenario(known.read_text(encoding="utf-8"), known.name)
    meant = suggested(name_or_path, scenario_names())
    raise UnknownScenario(f"no scenario is named {name_or_path!r}{meant}; or give a path that ends in .yaml")


def scenario_names() -> list[str]:
    """Return the names of all scenarios of the catalogue, which is not read for that."""
    return sorted(file.name.removesuffix(".yaml") for file in _catalogue_files())


def catalogue() -> list[Scenario]:
    """Return all scenarios of the catalogue, by name."""
    found = [read_scenario(file.read_text(encoding="utf-8"), file.name) for file in _catalogue_files()]
    return sorted(found, key=lambda scenario: scenario.name)


def _catalogue_files() -> Iterable[resources.abc.Traversable]:
    folder = resources.files("workloads") / "catalogue"
    return [file for file in folder.iterdir() if file.name.endswith(".yaml")]
