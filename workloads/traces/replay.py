"""A scenario from a trace's pods, and the YAML that `load_scenario` reads back as the same scenario.

A trace says what pods requested and how long they ran, not what they used. The caller gives the share of the request
that a pod used. The pod then has as many threads as it used cores, and the work that these threads do in its lifetime
on an idle machine. Pods with equal requests are one Job, in which each pod has its own work. GPUs are ignored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from workloads.arrivals import Trace
from workloads.errors import InvalidTrace
from workloads.scenario import ClusterShape, JobSpec, NodePool, Requests, Scenario, checked
from workloads.traces.alibaba import TraceNode, TracePod

FITTING = 0.85
"""Largest share of a node's cores and memory that one pod may request; the rest is for the platform's own pods."""
_LONGEST_S = 1_000_000
"""Longest duration of a scenario."""
_LARGEST = 1_000_000
"""Largest scale or usage; a larger one is a typing error."""


@dataclass(frozen=True)
class Selection:
    """Pods that can be replayed, and why others were left out."""

    pods: list[TracePod]
    """By the time of their creation."""
    left_out: dict[str, int]
    """Number of pods by reason."""


def select(
    pods: Sequence[TracePod],
    cluster: ClusterShape,
    from_s: float = 0.0,
    to_s: float = math.inf,
    count: int | None = None,
) -> Selection:
    """Return the first `count` pods (by default all) created in a window of time that can be replayed on `cluster`.

    Pods are left out if they never ran or still ran when the trace ended (their work is not known), if they requested
    no CPU or lived for less than a second (they did no work), or if they are too large for every node.

    Raises
    ------
    InvalidTrace
        If no pod is left; the message says why.
    """
    chosen: list[TracePod] = []
    left_out: Counter[str] = Counter()
    for pod in sorted(pods, key=lambda pod: pod.created_s):
        if len(chosen) == count:
            break
        if not from_s <= pod.created_s < to_s:
            continue
        if reason := _unfit(pod, cluster.each_pool):
            left_out[reason] += 1
        else:
            chosen.append(pod)
    if not chosen:
        why = ", ".join(f"{number} {reason}" for reason, number in left_out.items()) or "none was created then"
        raise InvalidTrace(f"no pod created from {from_s:g} s on and before {to_s:g} s can be replayed: {why}")
    return Selection(chosen, dict(left_out))


def scenario_of(
    pods: Sequence[TracePod],
    cluster: ClusterShape,
    *,
    name: str = "alibaba-gpu-2023",
    time_scale: float = 1.0,
    lifetime_scale: float | None = None,
    usage: float = 1.0,
    memory_usage: float = 1.0,
) -> Scenario:
    """Return the scenario in which `pods` arrive as they did in the trace; time 0 is the creation of the first.

    Parameters
    ----------
    pods : sequence of TracePod
        All with a lifetime, as `select` gives them.
    cluster : ClusterShape
    name : str
        Name of the scenario.
    time_scale, lifetime_scale : float
        Arrival times and lifetimes are divided by these; `lifetime_scale` is `time_scale` by default.
    usage, memory_usage : float
        Used CPU and memory, relative to what was requested.

    Raises
    ------
    InvalidTrace
        If a scale or usage is not positive or too large, a pod has no lifetime, or the scenario would last too long.
    InvalidScenario
        If the cluster or the name is invalid.
    """
    lifetime_scale = time_scale if lifetime_scale is None else lifetime_scale
    given = {"time_scale": time_scale, "lifetime_scale": lifetime_scale, "usage": usage, "memory_usage": memory_usage}
    for parameter, value in given.items():
        if not 0 < value <= _LARGEST:
            raise InvalidTrace(f"{parameter} must be more than 0 and at most {_LARGEST}, got {value:g}")
    if not pods:
        raise InvalidTrace("a scenario needs at least one pod")
    ordered = sorted(pods, key=lambda pod: pod.created_s)
    origin_s = ordered[0].created_s
    shapes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    end_s = work = 0.0
    for pod in ordered:
        arrival_s = (pod.created_s - origin_s) / time_scale
        lifetime_s = _lifetime_s(pod) / lifetime_scale
        shapes.setdefault((pod.millicpu, pod.memory_mib), []).append((arrival_s, lifetime_s))
        end_s = max(end_s, arrival_s + lifetime_s)
        work += lifetime_s * usage * pod.millicpu / 1000
    if end_s >= _LONGEST_S:
        raise InvalidTrace(
            f"the last pod would end after {end_s:.0f} s, a scenario lasts at most {_LONGEST_S} s: "
            f"take fewer pods, a shorter window of time or a larger time_scale ({time_scale:g} now)"
        )
    cores = sum(node.cores * node.speed for node in cluster.each_node)
    scenario = Scenario(
        name=name,
        description=f"{len(pods)} pods of a trace, arrivals {time_scale:g} and lifetimes {lifetime_scale:g} times as "
        f"fast, {usage:g} of the requested CPU and {memory_usage:g} of the memory used",
        jobs=[_job(*shape, lives, usage, memory_usage) for shape, lives in shapes.items()],
        cluster=cluster,
        # Twice the time without any waiting, plus twice the time that the work takes on all cores.
        limit_s=float(math.ceil(min(2 * end_s + 2 * work / cores + 600, _LONGEST_S))),
    )
    return checked(scenario, f"scenario {name}")


def pools_of(nodes: Sequence[TraceNode]) -> list[NodePool]:
    """Return pools of nodes of equal size, without fractions of a core and without GPUs."""
    sizes = Counter((node.millicpu // 1000, node.memory_mib) for node in nodes)
    return [
        NodePool(name=f"{cores}c-{memory_mib}mi", nodes=number, cores=cores, memory=f"{memory_mib}Mi")
        for (cores, memory_mib), number in sizes.items()
    ]


def scenario_yaml(scenario: Scenario) -> str:
    """Return the YAML of a scenario, without default values."""
    return yaml.safe_dump(_brief(scenario), sort_keys=False, default_flow_style=None, width=120)


def _unfit(pod: TracePod, pools: Sequence[NodePool]) -> str | None:
    """Return why a pod cannot be replayed; None if it can."""
    if pod.scheduled_s is None or pod.phase == "Pending":
        return "never ran"
    if pod.lifetime_s is None:
        return "still ran when the trace ended"
    if pod.lifetime_s < 1 or pod.millicpu == 0:
        return "did no work (no CPU requested, or less than a second)"
    fitting = (
        pod.millicpu <= FITTING * 1000 * pool.cores and pod.memory_mib * 2**20 <= FITTING * pool.memory_bytes
        for pool in pools
    )
    return None if any(fitting) else f"request more than {FITTING:.0%} of every node"


def _lifetime_s(pod: TracePod) -> float:
    if pod.lifetime_s is None or pod.lifetime_s <= 0 or pod.millicpu <= 0:
        raise InvalidTrace(f"pod {pod.name} has no lifetime or no CPU: its work is not known; select() leaves such out")
    return pod.lifetime_s


def _job(
    millicpu: int, memory_mib: int, lives: Sequence[tuple[float, float]], usage: float, memory_usage: float
) -> JobSpec:
    """Return the Job of pods with equal requests; `lives` has their arrival times and lifetimes, seconds."""
    start_s = lives[0][0]
    mean_s = sum(lifetime_s for _, lifetime_s in lives) / len(lives)
    cores = usage * millicpu / 1000
    work = [_short(lifetime_s / mean_s) for _, lifetime_s in lives]
    return JobSpec(
        name=f"pods-{millicpu}m-{memory_mib}mi",
        workload="task",
        pods=len(lives),
        parameters={
            "cores": _short(cores),
            "cpu_seconds": _short(cores * mean_s),
            "memory": f"{math.ceil(memory_usage * memory_mib)}Mi",
        },
        requests=Requests(cpu=f"{millicpu}m", memory=f"{memory_mib}Mi"),
        start_s=round(start_s, 3),
        arrivals=Trace(at_s=[round(arrival_s - start_s, 3) for arrival_s, _ in lives]),
        work=work if set(work) != {1.0} else [],
    )


def _short(number: float) -> float:
    """Return a number with six digits: as precise as the trace, and readable for people."""
    return float(f"{number:.6g}")


def _brief(value: Any) -> Any:
    if isinstance(value, list):
        return [_brief(one) for one in value]
    if not isinstance(value, msgspec.Struct):
        return value
    config = value.__struct_config__
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    fields = ((field, getattr(value, field.name)) for field in msgspec.structs.fields(value))
    return tag | {field.encode_name: _brief(one) for field, one in fields if one != _default(field)}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
