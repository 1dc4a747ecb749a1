"""The interface of a scheduler of one's own on the simulated cluster: a class with `filter` and `score`.

It is public and stable: fields and methods with defaults may be added, and nothing is removed. Importing it is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np


@dataclass(kw_only=True, eq=False)
class Pod:
    """A pod, as the API shows it."""

    name: str
    """Unique in a run."""
    job: str
    workload: str
    """What it runs, for example `pi`."""
    millicpu: int
    memory_bytes: int
    """What it requests; 0 if it requests nothing."""
    priority: int
    latency_critical: bool
    created_s: float
    running: bool = False
    """Whether the API shows it as Running."""


@dataclass(frozen=True, kw_only=True)
class NodeTelemetry:
    """A node's telemetry, averaged over the second before it was sent."""

    at_s: float
    """When it was measured; compare `ClusterView.now`."""
    cpu_utilisation: float
    """Share of the node's CPU time."""
    cpu_pressure: float
    """Share of the time in which some task waited for a CPU."""
    memory_utilisation: float
    """Share of the node's memory."""


@dataclass(kw_only=True, eq=False)
class Node:
    """A node, as the scheduler knows it."""

    name: str
    cores: float
    memory_bytes: int
    max_pods: int
    pods: list[Pod] = field(default_factory=list)
    """The pods for which the scheduler has chosen it, until the API shows that they are over."""
    free_millicpu: int
    free_memory_bytes: int
    """What neither the platform's pods nor `pods` have requested."""
    telemetry: NodeTelemetry | None = None
    """The latest that has arrived; None before the first, and after a restart of the node."""


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """What a scheduler may use beside the pods and nodes that it is asked about."""

    nodes: Sequence[Node]
    """All nodes, always up to date."""
    now: Callable[[], float]
    """Returns the time, seconds since the scenario began."""
    rng: np.random.Generator
    """The only source of randomness that keeps runs repeatable."""
    retry: Callable[[Node], None]
    """Lets refused pods be tried again because a node has room, as a change of the node's annotations does. Otherwise
    that happens when a pod ends, and after five minutes."""


class Scheduler:
    """The base class of a scheduler of one's own.

    kube-scheduler's queues, one attempt at a time, its hard constraints (requests, node affinity, the most pods of a
    node) and the binding are emulated around it. A new object is made for every repetition; the parameters of its
    constructor can be given in the SPEC, and are converted to the types of their annotations.

    Examples
    --------
    >>> class Spread(Scheduler):
    ...     def score(self, pod, node):
    ...         return -len(node.pods)
    """

    uses_requests: ClassVar[bool] = True
    """Whether pods have requests under this scheduler: the scenario's, or those in the SPEC (`cpu=`, `memory=`)."""
    version: ClassVar[str | None] = None
    """Its version, for the record of a run; by default that of the installed package that has it."""

    def start(self, cluster: ClusterView) -> None:
        """Begin; called once, before anything else."""

    def filter(self, pod: Pod, node: Node) -> bool:
        """Whether a pod may go to a node that satisfies the hard constraints; by default it may."""
        return True

    def score(self, pod: Pod, node: Node) -> float:
        """Return how good a node is for a pod: the highest score wins, and chance decides between equal ones."""
        return 0.0

    def reserve(self, pod: Pod, node: Node) -> None:
        """Note that a pod goes to a node, before it is bound; `node.pods` has it already."""

    def unreserve(self, pod: Pod, node: Node) -> None:
        """Note that a pod of a node is over; `node.pods` has it no longer."""

    def observe(self, node: Node) -> None:
        """Note that telemetry of a node has arrived: `node.telemetry`, once a second unless reports get lost."""
