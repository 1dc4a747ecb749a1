"""What pods of each workload cost, as the extender of the variant `demand` knows it, beside what they request.

A request is a number that people have to guess if the scheduler needs one. A request below the cost is a risk: pods get
in each other's way, or run out of memory. A request above the cost is waste: nodes look full that are not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from carico.demand.workload import workload_of
from carico.deployment.status import answering_extender, ask_status
from carico.errors import KubeUnreachable
from carico.extender.requests import Requests, requests_of
from carico.kube.objects import KubeObjects
from carico.kube.reflector import ENDED

Amount = Annotated[float, Meta(ge=0, le=1e9)]


class Known(msgspec.Struct, frozen=True):
    """What is known about a workload; doubts are standard deviations."""

    workload: str
    cores: float
    cores_doubt: float
    gib: float
    gib_doubt: float
    pods: int
    nodes: int
    idle_s: float | None = None
    """Seconds since a pod of it ran; None from an extender of an older version, as the next two."""
    last_requested_cores: Amount | None = None
    last_requested_gib: Amount | None = None
    """What the last pod requested."""
    reads: Amount = 0.0
    """Reads from its node's disks that a pod has under way; 0 if pods are not known to read, or from an extender of an
    older version."""
    reads_doubt: Amount = 0.0


class KnownAtNode(msgspec.Struct, frozen=True):
    """What one node knows about a workload; doubts are standard deviations."""

    workload: str
    node: str
    cores: float
    cores_doubt: float
    gib: float
    gib_doubt: float
    pods: int
    reads: Amount = 0.0
    reads_doubt: Amount = 0.0


class _Answer(msgspec.Struct, frozen=True):
    workloads: list[Known]


class _NodesAnswer(msgspec.Struct, frozen=True):
    workloads: list[KnownAtNode]


_A = TypeVar("_A", _Answer, _NodesAnswer)


class Cost(Known, frozen=True, kw_only=True):
    """What a pod of a workload costs, and what it requests."""

    owners: list[str]
    """The controllers of its pods, as KIND/NAME; the one with the most pods first."""
    requested_cores: float | None
    """A pod's mean request, or the last pod's if none runs; None if no request is known, or none can be read."""
    requested_gib: float | None


def read_costs(kube: KubeObjects, namespace: str, now: datetime) -> list[Cost]:
    """Return the costs of all workloads; the workload with the highest total demand comes first.

    Parameters
    ----------
    kube : KubeObjects
    namespace : str
        The namespace in which CARICO is deployed.
    now : datetime
        With a time zone.

    Raises
    ------
    NotReady
        If no extender can answer.
    KubeError
        If the API server does not answer, or refuses; or the extender is of an older version.
    """
    return join(_asked(kube, namespace, now, "costs", _Answer).workloads, kube.list("v1", "Pod"))


def read_node_costs(kube: KubeObjects, namespace: str, now: datetime) -> list[KnownAtNode]:
    """Return the costs of all workloads as each node knows them; arguments and errors as of `read_costs`."""
    return _asked(kube, namespace, now, "node-costs", _NodesAnswer).workloads


def _asked(kube: KubeObjects, namespace: str, now: datetime, page: str, kind: type[_A]) -> _A:
    """Ask an extender for a page of its status."""
    pod = answering_extender(kube, namespace, now)
    answer = ask_status(kube, namespace, pod, page)
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise KubeUnreachable(f"the extender of {pod} does not say what workloads cost: {error}") from error


def join(known: Iterable[Known], pods: Iterable[Mapping[str, Any]]) -> list[Cost]:
    """Join what is known about workloads with the API's pods."""
    owners: defaultdict[str, Counter[str]] = defaultdict(Counter)
    requests: defaultdict[str, list[Requests]] = defaultdict(list)
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ENDED:
            workload = workload_of(pod)
            owners[workload][_owner(pod)] += 1
            requests[workload].append(requests_of(pod))
    costs = []
    for each in known:
        asked = requests[each.workload] or [Requests(each.last_requested_cores, each.last_requested_gib)]
        costs.append(
            Cost(
                **msgspec.structs.asdict(each),
                owners=[name for name, _ in owners[each.workload].most_common()],
                requested_cores=_mean([pod.cores for pod in asked]),
                requested_gib=_mean([pod.gib for pod in asked]),
            )
        )
    return sorted(costs, key=lambda cost: (-cost.pods * cost.cores, cost.workload))


def as_json(costs: Sequence[Cost] | Sequence[KnownAtNode]) -> str:
    """Return the costs as one JSON object."""
    return msgspec.json.encode({"workloads": costs}).decode()


def _owner(pod: Mapping[str, Any]) -> str:
    owners = [each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")]
    return f"{owners[0].get('kind')}/{owners[0].get('name')}" if owners else f"Pod/{pod['metadata'].get('name')}"


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the known values; None if no value is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
